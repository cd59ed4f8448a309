#include "tests/support/source_dir.hpp"

namespace trireme::test {

std::filesystem::path source_dir() {
  return TRIREME_SOURCE_DIR;
}

}  // namespace trireme::test
