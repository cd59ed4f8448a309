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

// A function of its own, because a compiler does not compute vectors where the bytes that it writes
// may be the pointers of a lambda.
template <class T>
void encode_run(std::uint8_t* to, const T* from, std::int64_t n, float inverse) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = math::to_e4m3(static_cast<float>(from[i]) * inverse);
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

// Consecutive elements of one row and one tile: elements [begin, end) of a part.
struct TileRow {
  std::int64_t begin, end;
};

// Calls body(row, tile) for the elements of a part, by tile and row. `tile` is the index in views
// _IG of G columns. Calls for different tiles run in parallel.
template <class Body>
void for_tiles(std::int64_t first, std::int64_t elements, std::int64_t K, std::int64_t G,
               const Body& body) {
  const auto bands = fp8::bands_of(first, elements, K);
  for_chunks(bands.count() * G, 1, [&](std::int64_t tile, std::int64_t) {
    const auto column = tile % G * fp8::group, row = (bands.begin + tile / G) * fp8::group;
    for (auto r = row; r < row + fp8::group; ++r) {
      const TileRow run{std::max(first, r * K + column),
                        std::min(first + elements, r * K + std::min(K, column + fp8::group))};
      if (run.begin < run.end) body(TileRow{run.begin - first, run.end - first}, tile);
    }
  });
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

void run(const kernel::LargestOfTiles& o, View) {
  expect(o.largest_IG.dense() && o.x_N.dense(), "largest_of_tiles: dense views");
  auto* const largest = reinterpret_cast<std::uint32_t*>(data<std::int32_t>(o.largest_IG));
  std::fill_n(largest, o.largest_IG.count(), 0U);
  by_type(o.x_N.dtype, "largest_of_tiles", [&]<class T>(T) {
    const T* const x = data<T>(o.x_N);
    for_tiles(o.first, o.x_N.count(), o.columns, o.largest_IG.extent[1],
              [&](TileRow run, std::int64_t tile) {
                auto most = largest[tile];
                for (auto n = run.begin; n < run.end; ++n)
                  most = std::max(
                      most, std::bit_cast<std::uint32_t>(static_cast<float>(x[n])) & 0x7fffffffU);
                largest[tile] = most;
              });
  });
}

void run(const kernel::ScalesOfTiles& o, View) {
  const auto ranks = o.first_R.count(), width = o.largest_RW.extent[1],
             stride = o.largest_RW.stride[0];
  expect(o.scale_T.dense() && o.first_R.dense() && (width == 1 || o.largest_RW.stride[1] == 1),
         "scales_of_tiles: dense rows");
  const auto *const first = data<std::int32_t>(o.first_R), *const largest =
                                                               data<std::int32_t>(o.largest_RW);
  auto* const scale = data<float>(o.scale_T);
  for_chunks(o.scale_T.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto t = begin; t < end; ++t) {
      std::int32_t most = 0;
      for (std::int64_t r = 0; r < ranks; ++r)
        if (const auto w = t - first[r]; w >= 0 && w < width)
          most = std::max(most, largest[r * stride + w]);
      scale[t] = math::fp8_scale(static_cast<std::uint32_t>(most));
    }
  });
}

void run(const kernel::EncodeTiles& o, View) {
  expect(o.code_W.dense() && o.x_N.dense() && o.scale_IG.dense() &&
             o.code_W.count() == fp8::words_of(o.x_N.count()),
         "encode_tiles: dense views, four codes in a word");
  const auto n = o.x_N.count();
  const auto* const scale = data<float>(o.scale_IG);
  auto* const code = reinterpret_cast<std::uint8_t*>(o.code_W.data);
  by_type(o.x_N.dtype, "encode_tiles", [&]<class T>(T) {
    const T* const x = data<T>(o.x_N);
    for_tiles(o.first, n, o.columns, o.scale_IG.extent[1], [&](TileRow run, std::int64_t tile) {
      const float s = scale[tile];
      if (s != s) {
        std::fill(code + run.begin, code + run.end, std::uint8_t{0});
        return;
      }
      encode_run(code + run.begin, x + run.begin, run.end - run.begin, math::fp8_inverse(s));
    });
  });
  std::fill(code + n, code + o.code_W.count() * fp8::codes_per_word, std::uint8_t{0});
}

void run(const kernel::DecodeTiles& o, View) {
  expect(o.code_W.dense() && o.y_N.dense() && o.scale_IG.dense() &&
             o.code_W.count() == fp8::words_of(o.y_N.count()),
         "decode_tiles: dense views, four codes in a word");
  const auto* const scale = data<float>(o.scale_IG);
  const auto* const code = reinterpret_cast<const std::uint8_t*>(o.code_W.data);
  by_type(o.y_N.dtype, "decode_tiles", [&]<class T>(T) {
    T* const y = data<T>(o.y_N);
    for_tiles(o.first, o.y_N.count(), o.columns, o.scale_IG.extent[1],
              [&](TileRow run, std::int64_t tile) {
                for (auto i = run.begin; i < run.end; ++i)
                  put(y[i], numbers[code[i]] * scale[tile]);
              });
  });
}

}  // namespace trireme::host
