#pragma once
#include <cmath>
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

// Rows of tiles of a part of a matrix of 150 columns, and a part of one of 600 that begins and ends
// in the middle of rows.
struct PartOfMatrix {
  std::string name;
  std::int64_t first, elements, columns, bands;
};
inline const PartOfMatrix parts_of_matrices[] = {{"a whole matrix", 0, 140 * 150, 150, 2},
                                                 {"a part", 127 * 600 + 420, 1003, 600, 2}};
inline Shape tiles_of(const PartOfMatrix& p) {
  return {p.bands, fp8::scale_shape(fp8::Scales::tiles, 1, p.columns)[1]};
}
inline View numbers_in_words(Operands& o, const Shape& s) {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < s.count(); ++i)  // no NaN
    all.push_back(static_cast<std::int32_t>(hash64(7, static_cast<std::uint64_t>(i)) & 0x3d3d3d3d));
  return o.ids(all).reshaped(s);
}

// 1/8 to 8, in f32.
inline View powers_of_two(Operands& o, const Shape& s) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < s.count(); ++i)
    all.push_back(std::ldexp(1, static_cast<int>(i % 7) - 3));
  return o.given(DType::f32, s, all);
}

inline Examples<kernel::LargestOfTiles> examples(Of<kernel::LargestOfTiles>) {
  Examples<kernel::LargestOfTiles> list;
  for (const auto& p : parts_of_matrices)
    list.push_back({p.name, [=](Operands& o) {
                      return kernel::LargestOfTiles{.largest_IG = numbers_in_words(o, tiles_of(p)),
                                                    .x_N = o.values({p.elements}),
                                                    .first = p.first,
                                                    .columns = p.columns};
                    }});
  return list;
}

inline Examples<kernel::ScalesOfTiles> examples(Of<kernel::ScalesOfTiles>) {
  return {{"three ranks", [](Operands& o) {
             return kernel::ScalesOfTiles{.scale_T = o.of_type(DType::f32, {9}),
                                          .largest_RW = numbers_in_words(o, {3, 7}).slice(1, 2, 4),
                                          .first_R = o.ids({0, 3, 9}).reshaped({3})};
           }}};
}

inline Examples<kernel::EncodeTiles> examples(Of<kernel::EncodeTiles>) {
  Examples<kernel::EncodeTiles> list;
  for (const auto& p : parts_of_matrices)
    list.push_back({p.name, [=](Operands& o) {
                      return kernel::EncodeTiles{
                          .code_W = numbers_in_words(o, {fp8::words_of(p.elements)}),
                          .x_N = o.values({p.elements}),
                          .scale_IG = powers_of_two(o, tiles_of(p)),
                          .first = p.first,
                          .columns = p.columns};
                    }});
  return list;
}

inline Examples<kernel::DecodeTiles> examples(Of<kernel::DecodeTiles>) {
  Examples<kernel::DecodeTiles> list;
  for (const auto& p : parts_of_matrices)
    list.push_back({p.name, [=](Operands& o) {
                      return kernel::DecodeTiles{
                          .y_N = o.values({p.elements}),
                          .code_W = numbers_in_words(o, {fp8::words_of(p.elements)}),
                          .scale_IG = powers_of_two(o, tiles_of(p)),
                          .first = p.first,
                          .columns = p.columns};
                    }});
  return list;
}

}  // namespace trireme
