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

void require_replaceable(const std::string& output, std::string_view mark, std::string_view what) {
  std::error_code unknown;
  if (output.empty() || !std::filesystem::is_regular_file(output, unknown)) return;
  std::ifstream file(output, std::ios::binary);
  require(file.good(), "cannot read {}, which would be replaced: {}", output, std::strerror(errno));
  std::string head(1 << 20, '\0');
  file.read(head.data(), std::ssize(head));
  head.resize(static_cast<std::size_t>(file.gcount()));
  require(head.empty() || head.find(mark) != std::string::npos,
          "{} is there and no {}: name another file for it", output, what);
}

void flush_output() {
  const bool flushed = std::fflush(stdout) == 0;
  require(flushed, "cannot write the output: {}", std::strerror(errno));
  require(std::ferror(stdout) == 0, "cannot write the output");
}

}  // namespace trireme
