#pragma once
#include <iterator>

#include "lib/base/rng.hpp"
#include "tests/kernels/examples/example.hpp"

namespace trireme {

inline fp8::Matrix<View> fp8_result(Operands& o, fp8::Scales scales, std::int64_t rows,
                                    std::int64_t columns) {
  const auto code = fp8::code_shape(rows, columns);
  const std::vector<std::int32_t> words(static_cast<std::size_t>(code.count()), 0);
  return {o.ids(words).reshaped(code),
          o.of_type(DType::f32, fp8::scale_shape(scales, rows, columns)), scales};
}

inline Examples<kernel::RoundToFp8> examples(Of<kernel::RoundToFp8>) {
  using O = kernel::RoundToFp8;
  Examples<O> list;
  for (const auto scales : {fp8::Scales::rows, fp8::Scales::tiles}) {
    const std::string of = scales == fp8::Scales::rows ? "rows" : "tiles";
    list.push_back({of, [=](Operands& o) {
                      return O{.y = fp8_result(o, scales, 35, 150), .x_RK = o.values({35, 150})};
                    }});
    list.push_back(
        {of + " of a part", [=](Operands& o) {
           return O{.y = fp8_result(o, scales, 3, 9), .x_RK = o.values({3, 12}).slice(1, 2, 9)};
         }});
    list.push_back(
        {of + " of a transpose", [=](Operands& o) {
           return O{.y = fp8_result(o, scales, 150, 40), .x_RK = o.values({40, 150}).transposed()};
         }});
  }
  return list;
}

// Numbers whose sums a GPU adds exactly, although it keeps only 14 bits of a sum.
inline fp8::Matrix<ConstView> fp8_numbers(Operands& o, fp8::Scales scales, std::int64_t rows,
                                          std::int64_t columns) {
  const auto code = fp8::code_shape(rows, columns);
  std::vector<std::int32_t> words;
  for (std::int64_t i = 0; i < code.count(); ++i) {
    std::uint32_t word = 0;
    for (std::int64_t j = 0; j < fp8::codes_per_word; ++j) {
      const auto random =
          hash64(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(4 * i + j));
      constexpr std::uint32_t numbers[] = {0x00, 0x30, 0x38, 0xb0, 0xb8};  // 0, 1/2, 1, -1/2, -1
      word = word << 8 | numbers[random % std::size(numbers)];
    }
    words.push_back(static_cast<std::int32_t>(word));
  }
  return {o.ids(words).reshaped(code),
          o.of_type(DType::f32, fp8::scale_shape(scales, rows, columns)), scales};
}

inline Examples<kernel::Fp8Matmul> examples(Of<kernel::Fp8Matmul>) {
  using O = kernel::Fp8Matmul;
  constexpr std::int64_t M = 16, N = 48, K = 200;
  using enum fp8::Scales;
  Examples<O> list;
  for (const auto how : both_modes) {
    list.push_back({"by a weight" + mode(how), [how](Operands& o) {
                      return O{.c_MN = o.values({M, N}),
                               .a_MK = fp8_numbers(o, rows, M, K),
                               .b_NK = fp8_numbers(o, tiles, N, K),
                               .how = how};
                    }});
    list.push_back({"gradient of a weight" + mode(how), [how](Operands& o) {
                      return O{.c_MN = o.wide_values({M, N}),
                               .a_MK = fp8_numbers(o, rows, M, K),
                               .b_NK = fp8_numbers(o, rows, N, K),
                               .how = how};
                    }});
  }
  list.push_back({"bias, several tiles", [](Operands& o) {
                    return O{.c_MN = o.values({32, 144}),
                             .a_MK = fp8_numbers(o, rows, 32, 300),
                             .b_NK = fp8_numbers(o, tiles, 144, 300),
                             .bias_N = o.values({144})};
                  }});
  return list;
}

}  // namespace trireme
