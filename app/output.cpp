#include "app/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "lib/base/error.hpp"

namespace trireme {

void require_another_file(const std::string& output, const std::string& read) {
  std::error_code unknown;
  require(output.empty() || !std::filesystem::equivalent(output, read, unknown),
          "{} is the file that is read: name another for the output", output);
}

std::string output_named(std::string name) {
  return name == "-" ? "/dev/stdout" : name;
}

void require_replaceable(const std::string& output, const FileKind& kind) {
  std::error_code unknown;
  if (!std::filesystem::exists(output, unknown)) return;
  require(std::filesystem::is_regular_file(output, unknown),
          "{} is no regular file, which a {} can replace: name another", output, kind.what);
  std::ifstream file(output, std::ios::binary);
  require(file.good(), "cannot read {}, which would be replaced: {}", output, std::strerror(errno));
  constexpr std::size_t most = 1 << 20;
  std::string head(most, '\0');
  file.read(head.data(), most);
  head.resize(static_cast<std::size_t>(file.gcount()));
  const bool marked = head.find(kind.mark) != std::string::npos ||
                      (!kind.begin.empty() && head.size() == most);  // it may come later
  require(head.empty() || (head.starts_with(kind.begin) && marked),
          "{} is there and no {}: name another file for it", output, kind.what);
}

void require_rewritable(const std::string& output, const FileKind& kind) {
  std::error_code unknown;
  if (!is_open_already(output) && std::filesystem::is_regular_file(output, unknown))
    require_replaceable(output, kind);
}

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  require(written, "cannot write the output: {}", std::strerror(errno));
}

void flush_output() {
  const bool flushed = std::fflush(stdout) == 0;
  require(flushed, "cannot write the output: {}", std::strerror(errno));
  require(std::ferror(stdout) == 0, "cannot write the output");
}

}  // namespace trireme
