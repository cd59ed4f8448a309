// Matrices in fp8. Codes are found by searching a table of all e4m3 numbers.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {
namespace {

constexpr int smallest_exponent = -116;

// Returns all e4m3 numbers that are not negative. Element i is the value of code i.
const std::array<double, 127>& e4m3_numbers() {
  static const auto all = [] {
    std::array<double, 127> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const int exponent = static_cast<int>(i / 8);
      const auto mantissa = static_cast<double>(i % 8) / 8;
      numbers[i] =
          exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
    }
    return numbers;
  }();
  return all;
}

// Returns the code of the nearest number. Of two equally near numbers, the one with an even code is
// the nearest.
std::uint32_t code_of(double x) {
  const auto& numbers = e4m3_numbers();
  const double magnitude = std::fabs(x);
  const auto above = std::ranges::lower_bound(numbers, magnitude);
  auto code = static_cast<std::uint32_t>(above - numbers.begin());
  expect(code < numbers.size(), "a group's scale keeps its codes in range");
  if (code > 0) {
    const double up = numbers[code] - magnitude, down = magnitude - numbers[code - 1];
    if (down < up || (down == up && code % 2 == 1)) --code;
  }
  return code | (std::signbit(x) ? 0x80U : 0U);
}

double value_of(std::uint32_t code) {
  const auto magnitude = code & 0x7fU;
  if (magnitude == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  return (code & 0x80U) != 0 ? -e4m3_numbers()[magnitude] : e4m3_numbers()[magnitude];
}

// Returns the scale of a group whose largest magnitude is `largest`.
double scale_of(double largest) {
  if (!std::isfinite(largest)) return std::numeric_limits<double>::quiet_NaN();
  int exponent = smallest_exponent;
  while (largest > std::ldexp(448.0, exponent)) ++exponent;
  return std::ldexp(1.0, exponent);
}

// Indices of a group: rows [row, row_end) and columns [column, column_end).
struct Group {
  std::int64_t row, row_end, column, column_end;
};

Group group_at(const fp8::Matrix<View>& y, std::int64_t i, std::int64_t g) {
  const bool rows = y.scales == fp8::Scales::rows;
  const auto row = rows ? i : i * fp8::group;
  return {row, std::min(y.rows(), row + (rows ? 1 : fp8::group)), g * fp8::group,
          (g + 1) * fp8::group};
}

template <class T>
void round(const kernel::RoundToFp8& o) {
  const Elements<const T> x(o.x_RK);
  const Elements<std::int32_t> code(o.y.code_RW);
  const Elements<float> scale(o.y.scale);
  const bool rows = o.y.scales == fp8::Scales::rows;
  const auto columns = o.x_RK.extent[1];
  const auto at = [&](std::int64_t r, std::int64_t k) { return k < columns ? x(r, k) : 0.0; };
  for (std::int64_t d0 = 0; d0 < o.y.scale.extent[0]; ++d0)
    for (std::int64_t d1 = 0; d1 < o.y.scale.extent[1]; ++d1) {
      const auto [i, g] = rows ? std::pair(d1, d0) : std::pair(d0, d1);
      const Group all = g < fp8::groups(columns) ? group_at(o.y, i, g) : Group{};
      double largest = 0;
      for (auto r = all.row; r < all.row_end; ++r)
        for (auto k = all.column; k < all.column_end; ++k) {
          const double magnitude = std::fabs(at(r, k));
          if (std::isnan(magnitude) || magnitude > largest) largest = magnitude;
          if (std::isnan(largest)) break;
        }
      const double s = scale_of(largest);
      scale.at(d0, d1) = static_cast<float>(s);
      for (auto r = all.row; r < all.row_end; ++r)
        for (auto k = all.column; k < all.column_end; k += fp8::codes_per_word) {
          std::uint32_t word = 0;
          for (std::int64_t j = 0; j < fp8::codes_per_word && std::isfinite(s); ++j)
            word |= code_of(at(r, k + j) / s) << (8 * j);
          code.at(r, k / fp8::codes_per_word) = static_cast<std::int32_t>(word);
        }
    }
}

double element(const fp8::Matrix<ConstView>& m, std::int64_t r, std::int64_t k) {
  const Elements<const std::int32_t> code(m.code_RW);
  const Elements<const float> scale(m.scale);
  const auto word = static_cast<std::uint32_t>(code.at(r, k / fp8::codes_per_word));
  const auto g = k / fp8::group;
  const double s = m.scales == fp8::Scales::rows ? scale(g, r) : scale(r / fp8::group, g);
  return value_of(word >> (8 * (k % fp8::codes_per_word)) & 0xffU) * s;
}

// Returns the bits in f32 of a magnitude, which is rounded up.
std::int32_t bits_above(double x) {
  const double magnitude = std::fabs(x);
  auto rounded = static_cast<float>(magnitude);
  if (static_cast<double>(rounded) < magnitude)
    rounded = std::nextafter(rounded, std::numeric_limits<float>::infinity());
  return std::bit_cast<std::int32_t>(rounded);
}

// A tile of a band, counted from the first band of a part.
struct Tile {
  std::int64_t i, g;
};

// Returns the tile of element `at` of an operation's part.
template <class O>
Tile tile_of(const O& o, std::int64_t at) {
  const auto row = (o.first + at) / o.columns, column = (o.first + at) % o.columns;
  return {row / fp8::group - o.first / o.columns / fp8::group, column / fp8::group};
}

std::vector<double> decoded(const fp8::Matrix<ConstView>& m) {
  std::vector<double> all;
  for (std::int64_t r = 0; r < m.rows(); ++r)
    for (std::int64_t k = 0; k < m.columns(); ++k) all.push_back(element(m, r, k));
  return all;
}

}  // namespace

void run(const kernel::RoundToFp8& o) {
  with_compute_type(o.x_RK.dtype, [&](auto t) { round<decltype(t)>(o); });
}

void run(const kernel::Fp8Matmul& o) {
  const auto M = o.c_MN.extent[0], N = o.c_MN.extent[1], K = o.a_MK.columns();
  expect(o.a_MK.rows() == M && o.b_NK.rows() == N && o.b_NK.columns() == K,
         "fp8_matmul: [M, K] x [N, K]' gives [M, N]");
  const auto a = decoded(o.a_MK), b = decoded(o.b_NK);
  with_compute_type(o.c_MN.dtype, [&](auto t) {
    const Elements<decltype(t)> c(o.c_MN);
    const Elements<const decltype(t)> bias(o.bias_N);
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < K; ++k)
          sum += a[static_cast<std::size_t>(m * K + k)] * b[static_cast<std::size_t>(n * K + k)];
        if (bias) sum += bias(n);
        if (o.how == Accumulate::add) sum += c(m, n);
        c.put(sum, m, n);
      }
  });
}

void run(const kernel::LargestOfTiles& o) {
  const Elements<std::int32_t> largest_IG(o.largest_IG);
  for (std::int64_t i = 0; i < o.largest_IG.extent[0]; ++i)
    for (std::int64_t g = 0; g < o.largest_IG.extent[1]; ++g) largest_IG.at(i, g) = 0;
  with_compute_type(o.x_N.dtype, [&](auto t) {
    const Elements<const decltype(t)> x_N(o.x_N);
    for (std::int64_t n = 0; n < o.x_N.count(); ++n) {
      const auto [i, g] = tile_of(o, n);
      auto& largest = largest_IG.at(i, g);
      largest = std::max(largest, bits_above(x_N(n)));
    }
  });
}

void run(const kernel::ScalesOfTiles& o) {
  const Elements<float> scale_T(o.scale_T);
  const Elements<const std::int32_t> largest_RW(o.largest_RW), first_R(o.first_R);
  for (std::int64_t t = 0; t < o.scale_T.count(); ++t) {
    std::int32_t largest = 0;
    for (std::int64_t r = 0; r < o.first_R.count(); ++r) {
      const auto w = t - first_R.at(r);
      if (w >= 0 && w < o.largest_RW.extent[1]) largest = std::max(largest, largest_RW.at(r, w));
    }
    scale_T.at(t) = static_cast<float>(scale_of(std::bit_cast<float>(largest)));
  }
}

void run(const kernel::EncodeTiles& o) {
  const Elements<std::int32_t> code_W(o.code_W);
  const Elements<const float> scale_IG(o.scale_IG);
  with_compute_type(o.x_N.dtype, [&](auto t) {
    const Elements<const decltype(t)> x_N(o.x_N);
    for (std::int64_t w = 0; w < o.code_W.count(); ++w) {
      std::uint32_t word = 0;
      for (std::int64_t j = 0; j < fp8::codes_per_word; ++j) {
        const auto n = fp8::codes_per_word * w + j;
        if (n >= o.x_N.count()) break;
        const auto [i, g] = tile_of(o, n);
        const double scale = scale_IG(i, g);
        if (std::isfinite(scale)) word |= code_of(x_N(n) / scale) << (8 * j);
      }
      code_W.at(w) = static_cast<std::int32_t>(word);
    }
  });
}

void run(const kernel::DecodeTiles& o) {
  const Elements<const std::int32_t> code_W(o.code_W);
  const Elements<const float> scale_IG(o.scale_IG);
  with_compute_type(o.y_N.dtype, [&](auto t) {
    const Elements<decltype(t)> y_N(o.y_N);
    for (std::int64_t n = 0; n < o.y_N.count(); ++n) {
      const auto [i, g] = tile_of(o, n);
      const auto word = static_cast<std::uint32_t>(code_W.at(n / fp8::codes_per_word));
      y_N.put(value_of(word >> (8 * (n % fp8::codes_per_word)) & 0xffU) * scale_IG(i, g), n);
    }
  });
}

}  // namespace trireme::ref
