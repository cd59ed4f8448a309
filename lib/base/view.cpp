#include "lib/base/view.hpp"

#include "lib/base/error.hpp"

namespace trireme {

void Shape::refuse(std::size_t dims) {
  fail("a shape can have at most {} dimensions, but has {}", max_dims, dims);
}

std::string to_string(const Shape& s) {
  std::string text = "[";
  for (int d = 0; d < s.dims(); ++d) text += (d ? ", " : "") + std::to_string(s[d]);
  return text + "]";
}

}  // namespace trireme
