// Decoding of 4-bit weights.
#include <array>
#include <cmath>

#include "kernels/nf4.hpp"
#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {

// The NF4 codes as printed by Dettmers et al. 2023.
static constexpr std::array codes{-1.0,
                                  -0.6961928009986877,
                                  -0.5250730514526367,
                                  -0.39491748809814453,
                                  -0.28444138169288635,
                                  -0.18477343022823334,
                                  -0.09105003625154495,
                                  0.0,
                                  0.07958029955625534,
                                  0.16093020141124725,
                                  0.24611230194568634,
                                  0.33791524171829224,
                                  0.44070982933044434,
                                  0.5626170039176941,
                                  0.7229568362236023,
                                  1.0};

void run(const kernel::Dequantize& o) {
  const auto records = o.code_SW.extent[0];
  expect(o.y_N.dense() && o.y_N.count() == records * nf4::weights &&
             o.code_SW.extent[1] == nf4::code_words && o.scale_SW.extent[1] == nf4::scale_words,
         "dequantize: of whole records");
  const Elements<const std::int32_t> code_SW(o.code_SW), scale_SW(o.scale_SW);
  const Elements<const float> unit_S1(o.unit_S1);
  with_compute_type(o.y_N.dtype, [&](auto type) {
    auto* y = reinterpret_cast<decltype(type)*>(o.y_N.data);
    for (std::int64_t s = 0; s < records; ++s)
      for (std::int64_t i = 0; i < nf4::weights; ++i) {
        const auto block = i / nf4::block;
        const auto four = static_cast<std::uint32_t>(scale_SW.at(s, block / 4)),
                   eight = static_cast<std::uint32_t>(code_SW.at(s, i / 8));
        const auto q = static_cast<int>(four >> (block % 4 * 8) & 0xff);
        const auto byte = eight >> (i % 8 / 2 * 8) & 0xff;
        const auto code = i % 2 == 0 ? byte >> 4 : byte & 15;
        const auto sixteenths = static_cast<float>(std::exp2(-(q % 16) / 16.0));
        const float scale = q == 255 ? 0.0F : std::ldexp(unit_S1.at(s, 0) * sixteenths, -(q / 16));
        const auto x = static_cast<float>(codes[code]) * scale;
        store(*y++, double{x});
      }
  });
}

}  // namespace trireme::ref
