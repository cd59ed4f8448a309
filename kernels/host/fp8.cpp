// Matrices in fp8. Products are computed in f32 on blocks that are decoded in the workspace.
#include "kernels/fp8.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "kernels/host/kernels.hpp"
#include "kernels/host/matrices.hpp"
#include "kernels/host/widened.hpp"
#include "kernels/math/fp8.hpp"

namespace trireme::host {
namespace {

constexpr std::int64_t strip_rows = 16;
// Rows of one group as f32, with zeros beyond the matrix.
using Strip = std::array<std::array<float, fp8::group>, strip_rows>;

// Copies rows [row, row + strip_rows) of group g from a matrix.
template <class T>
void load(Strip& strip, const ConstView& x_RK, std::int64_t row, std::int64_t g) {
  const auto rows = std::min(strip_rows, x_RK.extent[0] - row), first = g * fp8::group,
             columns = std::min(fp8::group, x_RK.extent[1] - first);
  if (rows < strip_rows || columns < fp8::group)
    for (auto& r : strip) r.fill(0);
  const T* const from = data<T>(x_RK) + row * x_RK.stride[0] + first * x_RK.stride[1];
  if (row_major(x_RK)) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t k = 0; k < columns; ++k)
        strip[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)] =
            static_cast<float>(from[r * x_RK.stride[0] + k]);
  } else {
    for (std::int64_t k = 0; k < columns; ++k)
      for (std::int64_t r = 0; r < rows; ++r)
        strip[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)] =
            static_cast<float>(from[k * x_RK.stride[1] + r]);
  }
}

// Returns the largest magnitude as its bits. NaN is larger than all numbers.
std::uint32_t largest_magnitude(const std::array<float, fp8::group>& row) {
  std::uint32_t largest = 0;
  for (const float x : row)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
  return largest;
}

void encode(std::uint8_t* to, const std::array<float, fp8::group>& row, float scale) {
  if (scale != scale) {
    std::fill_n(to, fp8::group, std::uint8_t{0});
    return;
  }
  const float inverse = math::fp8_inverse(scale);
  for (const float x : row) *to++ = math::to_e4m3(x * inverse);
}

template <class T>
void round_rows(const kernel::RoundToFp8& o) {
  const auto R = o.y.rows(), G = o.y.scale.extent[0], padded = o.y.scale.extent[1];
  const auto strips = (padded + strip_rows - 1) / strip_rows;
  auto* const scale = data<float>(o.y.scale);
  auto* const code = reinterpret_cast<std::uint8_t*>(o.y.code_RW.data);
  for_chunks(strips * G, 4, [&](std::int64_t begin, std::int64_t end) {
    Strip strip;
    for (auto i = begin; i < end; ++i) {
      const auto row = i / G * strip_rows, g = i % G;
      load<T>(strip, o.x_RK, row, g);
      for (auto r = row; r < std::min(padded, row + strip_rows); ++r) {
        const auto& values = strip[static_cast<std::size_t>(r - row)];
        const float s = math::fp8_scale(largest_magnitude(values));
        scale[g * padded + r] = s;
        if (r < R) encode(code + r * o.y.columns() + g * fp8::group, values, s);
      }
    }
  });
}

template <class T>
void round_tiles(const kernel::RoundToFp8& o) {
  const auto R = o.y.rows(), I = o.y.scale.extent[0], padded = o.y.scale.extent[1],
             G = fp8::groups(o.x_RK.extent[1]);
  auto* const scale = data<float>(o.y.scale);
  auto* const code = reinterpret_cast<std::uint8_t*>(o.y.code_RW.data);
  for_chunks(I * padded, 1, [&](std::int64_t begin, std::int64_t end) {
    Strip strip;
    for (auto tile = begin; tile < end; ++tile) {
      const auto first = tile / padded * fp8::group, g = tile % padded,
                 last = g < G ? std::min(R, first + fp8::group) : first;
      std::uint32_t largest = 0;
      for (auto row = first; row < last; row += strip_rows) {
        load<T>(strip, o.x_RK, row, g);
        for (const auto& values : strip) largest = std::max(largest, largest_magnitude(values));
      }
      const float s = math::fp8_scale(largest);
      scale[tile] = s;
      for (auto row = first; row < last; row += strip_rows) {
        load<T>(strip, o.x_RK, row, g);
        for (auto r = row; r < std::min(last, row + strip_rows); ++r)
          encode(code + r * o.y.columns() + g * fp8::group,
                 strip[static_cast<std::size_t>(r - row)], s);
      }
    }
  });
}

constexpr auto numbers = [] {
  std::array<float, 256> all{};
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = math::from_e4m3(static_cast<std::uint8_t>(i));
  return all;
}();

// Decodes rows [row, ...) and columns [column, ...) of a matrix into `to`, whose rows are dense.
void decode(const View& to, const fp8::Matrix<ConstView>& m, std::int64_t row,
            std::int64_t column) {
  const auto columns = to.extent[1];
  const auto scale_at = [&](std::int64_t r, std::int64_t g) {
    const auto [i, j] =
        m.scales == fp8::Scales::rows ? std::pair(g, r) : std::pair(r / fp8::group, g);
    return data<float>(m.scale)[i * m.scale.stride[0] + j * m.scale.stride[1]];
  };
  for_rows(to.extent[0], columns, [&](std::int64_t begin, std::int64_t end) {
    for (auto r = begin; r < end; ++r) {
      const auto* const code = reinterpret_cast<const std::uint8_t*>(
          data<std::int32_t>(m.code_RW) + (row + r) * m.code_RW.stride[0]);
      auto* const y = data<float>(to) + r * to.stride[0];
      for (std::int64_t k = 0; k < columns;) {
        const auto g = (column + k) / fp8::group,
                   stop = std::min(columns, (g + 1) * fp8::group - column);
        const float s = scale_at(row + r, g);
        for (; k < stop; ++k) y[k] = numbers[code[column + k]] * s;
      }
    }
  });
}

Widened widened(const fp8::Matrix<ConstView>& m) {
  return {.rows = m.rows(),
          .columns = m.columns(),
          .by_rows = true,
          .widen = [m](const View& to, std::int64_t row, std::int64_t column) {
            decode(to, m, row, column);
          }};
}

}  // namespace

void run(const kernel::RoundToFp8& o, View) {
  expect(o.y.code_RW.dense() && o.y.scale.dense() && o.y.rows() == o.x_RK.extent[0] &&
             o.y.columns() == fp8::groups(o.x_RK.extent[1]) * fp8::group,
         "round_to_fp8: a dense result of the operand's shape");
  const auto x_RK = normal(o.x_RK, "x");
  by_type(x_RK.dtype, "round_to_fp8", [&]<class T>(T) {
    if (o.y.scales == fp8::Scales::rows)
      round_rows<T>({.y = o.y, .x_RK = x_RK});
    else
      round_tiles<T>({.y = o.y, .x_RK = x_RK});
  });
}

void run(const kernel::Fp8Matmul& o, View scratch) {
  expect(o.a_MK.rows() == o.c_MN.extent[0] && o.b_NK.rows() == o.c_MN.extent[1] &&
             o.a_MK.columns() == o.b_NK.columns(),
         "fp8_matmul: [M, K] x [N, K]' gives [M, N]");
  if (o.c_MN.count() == 0) return;
  multiply_widened(o.c_MN, widened(o.a_MK), widened(o.b_NK).transposed(), o.how, o.bias_N, scratch,
                   o.order);
}

}  // namespace trireme::host
