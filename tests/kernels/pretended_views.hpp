#pragma once
// Views of memory that is never accessed, for tests that look at types and shapes alone.
#include "lib/base/view.hpp"

namespace trireme {

inline View pretended(DType t, const Shape& s) {
  static std::byte somewhere{};
  return {&somewhere, t, s};
}
inline View bf16s(const Shape& s) {
  return pretended(DType::bf16, s);
}
inline View f32s(const Shape& s) {
  return pretended(DType::f32, s);
}

}  // namespace trireme
