#include "app/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "lib/base/error.hpp"

namespace trireme {

void flush_output() {
  const bool flushed = std::fflush(stdout) == 0;
  require(flushed, "cannot write the output: {}", std::strerror(errno));
  require(std::ferror(stdout) == 0, "cannot write the output");
}

}  // namespace trireme
