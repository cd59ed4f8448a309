#pragma once
// The 16 numbers of NormalFloat with 4 bits (Dettmers et al. 2023, appendix E): 0, 7 quantiles of
// the normal distribution below it and 8 above, in equal steps of probability on each side, in
// units of the largest.
#include <array>

namespace trireme::math {

inline constexpr std::array<float, 16> nf4_codes{
    -1.0F,          -0.696192801F, -0.525073051F, -0.394917488F, -0.284441382F, -0.184773430F,
    -0.0910500363F, 0.0F,          0.0795802996F, 0.160930201F,  0.246112302F,  0.337915242F,
    0.440709829F,   0.562617004F,  0.722956836F,  1.0F};

// For device code, where an array of the host has no address.
constexpr float nf4_code(unsigned i) {
  const auto codes = nf4_codes;
  return codes[i];
}

}  // namespace trireme::math
