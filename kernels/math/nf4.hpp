#pragma once
// Values and scales of 4-bit NormalFloat (Dettmers et al. 2023, appendix E). The 16 values are 0, 7
// quantiles of the normal distribution below 0 and 8 above, at equal steps of probability on each
// side, divided by the largest.
//
// A block stores its scale as one byte q, relative to the largest scale `unit` of the record: scale
// = unit * 2^(-q / 16), or 0 if q = 255. Steps are 4.4%, so rounding changes a scale by at most
// 2.2%, down to the smallest scale, which is 1.7e-5 of the largest.
#include <array>
#include <bit>
#include <cstdint>

namespace trireme::math {

// The values that the 16 codes represent.
inline constexpr std::array<float, 16> nf4_codes{
    -1.0F,          -0.696192801F, -0.525073051F, -0.394917488F, -0.284441382F, -0.184773430F,
    -0.0910500363F, 0.0F,          0.0795802996F, 0.160930201F,  0.246112302F,  0.337915242F,
    0.440709829F,   0.562617004F,  0.722956836F,  1.0F};

// Returns nf4_codes[i]. Device code needs the function because host arrays have no device address.
constexpr float nf4_code(unsigned i) {
  const auto codes = nf4_codes;
  return codes[i];
}

// Powers of two: element i is 2^(-i / 16).
inline constexpr std::array<float, 16> nf4_sixteenths{
    1.0F,         0.957603276F, 0.917004049F, 0.878126085F, 0.840896428F, 0.805245161F,
    0.771105409F, 0.738413095F, 0.707106769F, 0.677127779F, 0.648419797F, 0.620928884F,
    0.594603539F, 0.56939429F,  0.545253873F, 0.522136867F};
// Value of the byte q for a block whose scale is 0.
inline constexpr unsigned nf4_nothing = 255;

// Returns the scale of a block. `q` is the block's byte, and `unit` is the largest scale of its
// record. The product is rounded only once, because the last factor is a power of two. Its bits are
// therefore the same on every machine.
constexpr float nf4_scale(float unit, unsigned q) {
  const auto sixteenths = nf4_sixteenths;
  const float power = std::bit_cast<float>((127U - (q >> 4)) << 23);
  return q == nf4_nothing ? 0.0F : unit * sixteenths[q & 15U] * power;
}

}  // namespace trireme::math
