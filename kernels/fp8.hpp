#pragma once
// Matrices in fp8, and their memory layout. An element is an e4m3 code times a scale. e4m3 has 4
// exponent bits and 3 mantissa bits, and its largest value is 448 (Micikevicius et al. 2022). Each
// group of elements shares one scale, as in DeepSeek-V3. A scale is the smallest power of two for
// which no code of its group exceeds 448. Scales are powers of two so that code * scale is exact in
// bf16 and f32, except that magnitudes above 248 * 2^120 may become infinite.
//
// The layout is that of cuBLASLt (CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F and BLK128x128_32F). Rows
// are padded with zeros to whole groups of 128 columns:
//
//   code_RW   i32 [R, W], dense rows; four codes in a word, the first in the low byte
//   scale     f32, with G = W / 32 groups in a row
//     Scales::rows   [G, R rounded up to 4]; scale(g, r) belongs to columns 128 g to 128 g + 127
//                    of row r
//     Scales::tiles  [R / 128 rounded up, G rounded up to 4]; scale(i, g) belongs to these columns
//                    of rows 128 i to 128 i + 127
#include <cstdint>

#include "lib/base/view.hpp"

namespace trireme::fp8 {

// Columns that share a scale.
inline constexpr std::int64_t group = 128;
// On a GPU, the rows and columns of all matrices in a product must be multiples of this number.
inline constexpr std::int64_t multiple = 16;
// Codes in a word of code_RW.
inline constexpr std::int64_t codes_per_word = 4;

// Elements that share a scale: 128 columns of one row, or 128 columns of 128 rows.
enum class Scales : std::uint8_t { rows, tiles };

constexpr std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
constexpr std::int64_t groups(std::int64_t columns) {
  return rounded_up(columns, group) / group;
}
inline Shape code_shape(std::int64_t rows, std::int64_t columns) {
  return {rows, groups(columns) * group / codes_per_word};
}
inline Shape scale_shape(Scales s, std::int64_t rows, std::int64_t columns) {
  if (s == Scales::rows) return {groups(columns), rounded_up(rows, 4)};
  return {groups(rows), rounded_up(groups(columns), 4)};
}

// The bands [begin, end) of a matrix. A band contains the tiles of 128 consecutive rows.
struct Bands {
  std::int64_t begin, end;
  constexpr std::int64_t count() const { return end - begin; }
};
// Returns the bands that contain the elements [first, first + elements) of a matrix in row order.
constexpr Bands bands_of(std::int64_t first, std::int64_t elements, std::int64_t columns) {
  const auto begin = first / columns / group;
  return {begin, elements == 0 ? begin : (first + elements - 1) / columns / group + 1};
}
// Returns the number of words that hold this many codes.
constexpr std::int64_t words_of(std::int64_t codes) {
  return rounded_up(codes, codes_per_word) / codes_per_word;
}

// A matrix in fp8.
template <class AnyView>
struct Matrix {
  AnyView code_RW, scale;
  Scales scales = Scales::rows;

  std::int64_t rows() const { return code_RW.extent[0]; }
  // Returns the number of columns, including the padding.
  std::int64_t columns() const { return code_RW.extent[1] * codes_per_word; }
  // Returns `n` rows from row `begin` on. `begin` must be a multiple of 128 for Scales::tiles.
  Matrix row_range(std::int64_t begin, std::int64_t n) const {
    if (begin == 0 && n == rows()) return *this;
    const auto part = scales == Scales::rows ? scale.slice(1, begin, n)
                                             : scale.slice(0, begin / group, groups(n));
    return {code_RW.slice(0, begin, n), part, scales};
  }
};

}  // namespace trireme::fp8
