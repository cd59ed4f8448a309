#include "lib/base/view.hpp"

namespace trireme {

std::string to_string(const Shape& s) {
  std::string text = "[";
  for (int d = 0; d < s.dims(); ++d) text += (d ? ", " : "") + std::to_string(s[d]);
  return text + "]";
}

}  // namespace trireme
