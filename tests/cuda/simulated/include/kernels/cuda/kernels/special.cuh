#pragma once
// Special function units of a simulated device: about as far off as those of a real one may be, the
// same for the same number.
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>

namespace trireme::cuda {

inline float special(float x, float exact, float off) {
  if (std::fabs(exact) < FLT_MIN) return 0;
  const bool more = (std::bit_cast<std::uint32_t>(x) * 2654435761U >> 31) != 0;
  return exact * (more ? 1 + off : 1 - off);
}

inline float special_exp2(float x) {
  return x == 0 ? 1.0F : special(x, std::exp2(x), 0x1p-22F);
}
inline float special_reciprocal(float x) {
  return special(x, 1 / x, 0x1p-23F);
}

}  // namespace trireme::cuda
