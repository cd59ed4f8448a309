#include "lib/base/error.hpp"

namespace trireme {

std::string without_nul(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (c != '\0')
      shown += c;
    else
      shown += "\\x00";
  }
  return shown;
}

void throw_error(std::string_view message) {
  throw Error(without_nul(message));
}

}  // namespace trireme
