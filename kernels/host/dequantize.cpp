// Decoding of 4-bit weights, one byte (two weights) at a time.
#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/math/nf4.hpp"
#include "kernels/nf4.hpp"

namespace trireme::host {

namespace {

struct Two {
  float high, low;
};
constexpr auto codes_of_byte = [] {
  std::array<Two, 256> all{};
  for (std::size_t b = 0; b < all.size(); ++b)
    all[b] = {math::nf4_codes[b >> 4], math::nf4_codes[b & 15]};
  return all;
}();

}  // namespace

void run(const kernel::Dequantize& o, View) {
  const auto records = o.code_SW.extent[0];
  expect(o.y_N.dense() && o.y_N.count() == records * nf4::weights && o.code_SW.stride[1] == 1 &&
             o.scale_SW.stride[1] == 1,
         "dequantize: of whole records with dense rows");
  by_type(o.y_N.dtype, "dequantize", [&]<class T>(T) {
    for_chunks(records, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto s = begin; s < end; ++s) {
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(
            data<std::int32_t>(o.code_SW) + s * o.code_SW.stride[0]);
        const auto* const q = reinterpret_cast<const std::uint8_t*>(data<std::int32_t>(o.scale_SW) +
                                                                    s * o.scale_SW.stride[0]);
        const float unit = data<float>(o.unit_S1)[s * o.unit_S1.stride[0]];
        T* const y = data<T>(o.y_N) + s * nf4::weights;
        for (std::int64_t b = 0; b < nf4::blocks; ++b) {
          const float scale = math::nf4_scale(unit, q[b]);
          for (auto i = b * nf4::block / 2; i < (b + 1) * nf4::block / 2; ++i) {
            const Two& two = codes_of_byte[bytes[i]];
            put(y[2 * i], two.high * scale);
            put(y[2 * i + 1], two.low * scale);
          }
        }
      }
    });
  });
}

}  // namespace trireme::host
