#pragma once
// The 16 numbers of NormalFloat with 4 bits (Dettmers et al. 2023, appendix E): 0, 7 quantiles of
// the normal distribution below it and 8 above, in equal steps of probability on each side, in
// units of the largest.
//
// A scale is kept as a byte q in units of the largest of its record: unit 2^(-q / 16), and 0 for
// 255. The steps are 4.4%, so a scale is off by at most 2.2% wherever others are.
#include <array>
#include <bit>
#include <cstdint>

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

inline constexpr std::array<float, 16> nf4_sixteenths{
    1.0F,         0.957603276F, 0.917004049F, 0.878126085F, 0.840896428F, 0.805245161F,
    0.771105409F, 0.738413095F, 0.707106769F, 0.677127779F, 0.648419797F, 0.620928884F,
    0.594603539F, 0.56939429F,  0.545253873F, 0.522136867F};
inline constexpr unsigned nf4_nothing = 255;

// One rounding, as the rest is a power of two: the same bits everywhere.
constexpr float nf4_scale(float unit, unsigned q) {
  const auto sixteenths = nf4_sixteenths;
  const float power = std::bit_cast<float>((127U - (q >> 4)) << 23);
  return q == nf4_nothing ? 0.0F : unit * sixteenths[q & 15U] * power;
}

}  // namespace trireme::math
