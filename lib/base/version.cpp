#include "lib/base/version.hpp"

#include TRIREME_COMMIT_FILE

namespace trireme {

std::string_view version() {
  return TRIREME_VERSION;
}

std::string_view commit() {
  return commit_text;
}

std::string_view compiler() {
  return TRIREME_COMPILER;
}

}  // namespace trireme
