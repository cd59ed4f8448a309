#include "app/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "lib/base/error.hpp"

namespace trireme {

void require_another_file(const std::string& output, const std::string& read) {
  std::error_code unknown;
  require(output.empty() || !std::filesystem::equivalent(output, read, unknown),
          "{} is the file that is read: name another for the output", output);
}

void flush_output() {
  const bool flushed = std::fflush(stdout) == 0;
  require(flushed, "cannot write the output: {}", std::strerror(errno));
  require(std::ferror(stdout) == 0, "cannot write the output");
}

}  // namespace trireme
