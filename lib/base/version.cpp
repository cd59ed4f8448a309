#include "lib/base/version.hpp"

namespace trireme {

std::string_view version() {
  return TRIREME_VERSION;
}

}  // namespace trireme
