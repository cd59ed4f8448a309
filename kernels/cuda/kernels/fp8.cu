// Rounds matrices to fp8. A thread block processes 128 columns. If each row has its own scale, the
// block processes 32 rows, otherwise a tile of 128 rows. It copies 32 rows at a time to shared
// memory. Threads with consecutive numbers therefore read adjacent elements, whether the operand is
// stored by rows or by columns.
//
// The operations on tiles of a part of a matrix use one thread block for each tile to find the
// largest magnitudes, and one thread for each word of codes to encode and decode.
#include <algorithm>
#include <bit>

#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/fp8.hpp"
#include "kernels/math/fp8.hpp"

namespace trireme::cuda {
namespace {

constexpr int columns = static_cast<int>(fp8::group), strip_rows = 32;
constexpr int pitch = columns + 4;  // a warp reads a row in words of 16 bytes without conflicts
constexpr int words = columns / static_cast<int>(fp8::codes_per_word);
static_assert(words == warp, "a lane encodes one word");

// A strided matrix, and the result of rounding it.
template <class T>
struct Rounding {
  const T* x;
  std::int64_t rows, columns, row_stride, column_stride;
  std::int32_t* code_RW;
  float* scale;
  std::int64_t words, groups, padded;  // of a row of codes, and of the scales
};

using Strip = float[strip_rows][pitch];

template <class T>
__device__ void load_strip(Strip& strip, const Rounding<T>& o, std::int64_t row,
                           std::int64_t column) {
  const bool by_rows = o.column_stride == 1;
  for (int i = static_cast<int>(threadIdx.x); i < strip_rows * columns; i += block_threads) {
    const int r = by_rows ? i / columns : i % strip_rows,
              k = by_rows ? i % columns : i / strip_rows;
    const bool inside = row + r < o.rows && column + k < o.columns;
    strip[r][k] =
        inside ? widen(o.x[(row + r) * o.row_stride + (column + k) * o.column_stride]) : 0.0F;
  }
}

// The four numbers of a row that a lane encodes.
__device__ Floats<4> of_lane(const Strip& strip, int r) {
  return load<4>(&strip[r][4 * (threadIdx.x % warp)]);
}

__device__ std::uint32_t largest_magnitude(const Floats<4>& x) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x.v[i]) & 0x7fffffffU);
  return largest;
}
__device__ std::uint32_t warp_largest(std::uint32_t x) {
#pragma unroll
  for (int lane = warp / 2; lane > 0; lane /= 2)
    x = std::max(x, __shfl_xor_sync(0xffffffffU, x, lane));
  return x;
}

// Stores the codes of a row of a group. If the scale is NaN, they are zeros.
template <class T>
__device__ void encode(const Rounding<T>& o, std::int64_t row, std::int64_t g, const Floats<4>& x,
                       float scale) {
  const float inverse = math::fp8_inverse(scale);
  std::uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    word |= static_cast<std::uint32_t>(math::to_e4m3(x.v[i] * inverse)) << (8 * i);
  o.code_RW[row * o.words + g * words + threadIdx.x % warp] =
      scale == scale ? static_cast<std::int32_t>(word) : 0;
}

template <class T>
__global__ void __launch_bounds__(block_threads) round_rows(Rounding<T> o) {
  alignas(16) __shared__ Strip strip;
  const auto g = static_cast<std::int64_t>(blockIdx.x) % o.groups,
             first = static_cast<std::int64_t>(blockIdx.x) / o.groups * strip_rows;
  load_strip(strip, o, first, g * columns);
  __syncthreads();
  for (int r = static_cast<int>(threadIdx.x) / warp; r < strip_rows; r += block_threads / warp) {
    const auto row = first + r;
    if (row >= o.padded) break;  // the same for all lanes of a warp
    const auto x = of_lane(strip, r);
    const float scale = math::fp8_scale(warp_largest(largest_magnitude(x)));
    if (threadIdx.x % warp == 0) o.scale[g * o.padded + row] = scale;
    if (row < o.rows) encode(o, row, g, x, scale);
  }
}

// Returns the largest number of all threads of the block.
__device__ std::uint32_t block_largest(std::uint32_t x) {
  __shared__ std::uint32_t of_warps[block_threads / warp];
  x = warp_largest(x);
  if (threadIdx.x % warp == 0) of_warps[threadIdx.x / warp] = x;
  __syncthreads();
  for (const auto other : of_warps) x = std::max(x, other);
  return x;
}

template <class T>
__global__ void __launch_bounds__(block_threads) round_tiles(Rounding<T> o) {
  alignas(16) __shared__ Strip strip;
  const auto g = static_cast<std::int64_t>(blockIdx.x) % o.padded,
             tile = static_cast<std::int64_t>(blockIdx.x) / o.padded, first = tile * fp8::group,
             last = g < o.groups ? std::min(o.rows, first + fp8::group) : first;
  const int my_warp = static_cast<int>(threadIdx.x) / warp;
  std::uint32_t largest = 0;
  for (auto row = first; row < last; row += strip_rows) {
    load_strip(strip, o, row, g * columns);
    __syncthreads();
    for (int r = my_warp; r < strip_rows; r += block_threads / warp)
      largest = std::max(largest, largest_magnitude(of_lane(strip, r)));
    __syncthreads();
  }
  const float scale = math::fp8_scale(block_largest(largest));
  if (threadIdx.x == 0) o.scale[blockIdx.x] = scale;
  for (auto row = first; row < last; row += strip_rows) {
    load_strip(strip, o, row, g * columns);
    __syncthreads();
    for (int r = my_warp; r < strip_rows && row + r < last; r += block_threads / warp)
      encode(o, row + r, g, of_lane(strip, r), scale);
    __syncthreads();
  }
}

// The tiles of a part of a matrix: elements [first, first + elements) in row order.
struct Part {
  std::int64_t first, elements, columns, tile_columns;  // tile_columns: of views _IG
  std::int64_t band = first / columns / fp8::group;     // the first row of tiles

  // Calls body(j, tile) for each element 4 w + j of word w. Divides only once, because a division
  // by a number that is not constant takes as long as all else.
  template <class Body>
  __device__ void for_word(std::int64_t w, const Body& body) const {
    const auto n = fp8::codes_per_word * w, at = first + n;
    const bool narrow =
        static_cast<std::uint64_t>(at) >> 32 == 0 && static_cast<std::uint64_t>(columns) >> 32 == 0;
    auto row = narrow ? static_cast<std::int64_t>(static_cast<std::uint32_t>(at) /
                                                  static_cast<std::uint32_t>(columns))
                      : at / columns,
         column = at - row * columns;
#pragma unroll
    for (int j = 0; j < fp8::codes_per_word; ++j) {
      if (n + j < elements) body(j, (row / fp8::group - band) * tile_columns + column / fp8::group);
      if (++column == columns) {
        column = 0;
        ++row;
      }
    }
  }
};

template <class T>
__global__ void __launch_bounds__(block_threads)
    largest_of_tiles(std::int32_t* largest, const T* x, Part part) {
  const auto tile = static_cast<std::int64_t>(blockIdx.x);
  const auto row = (part.band + tile / part.tile_columns) * fp8::group,
             column = tile % part.tile_columns * fp8::group;
  std::uint32_t most = 0;
  for (int i = static_cast<int>(threadIdx.x); i < columns * columns; i += block_threads) {
    const auto k = column + i % columns, n = (row + i / columns) * part.columns + k - part.first;
    if (k < part.columns && n >= 0 && n < part.elements)
      most = std::max(most, std::bit_cast<std::uint32_t>(widen(x[n])) & 0x7fffffffU);
  }
  most = block_largest(most);
  if (threadIdx.x == 0) largest[tile] = static_cast<std::int32_t>(most);
}

// Computes the scale of one tile.
struct ScaleOfTile {
  float* scale_T;
  const std::int32_t *largest_RW, *first_R;
  std::int64_t ranks, width, stride;

  __device__ void operator()(std::int64_t t) const {
    std::int32_t most = 0;
    for (std::int64_t r = 0; r < ranks; ++r) {
      const auto w = t - first_R[r];
      if (w >= 0 && w < width) most = std::max(most, largest_RW[r * stride + w]);
    }
    scale_T[t] = math::fp8_scale(static_cast<std::uint32_t>(most));
  }
};

// Encodes one word. N elements are read at a time.
template <class T, int N>
struct Encode {
  std::int32_t* code_W;
  const T* x_N;
  const float* scale_IG;
  Part part;

  __device__ void operator()(std::int64_t w) const {
    const T* const from = x_N + fp8::codes_per_word * w;
    Floats<4> x{};
    if constexpr (N == 4) x = load<4>(from);
    std::uint32_t word = 0;
    part.for_word(w, [&](int j, std::int64_t tile) {
      if constexpr (N == 1) x.v[j] = widen(from[j]);
      const float scale = scale_IG[tile];
      const auto code = math::to_e4m3(x.v[j] * math::fp8_inverse(scale));
      if (scale == scale) word |= static_cast<std::uint32_t>(code) << (8 * j);
    });
    code_W[w] = static_cast<std::int32_t>(word);
  }
};

// Decodes one word. N elements are written at a time.
template <class T, int N>
struct Decode {
  T* y_N;
  const std::int32_t* code_W;
  const float* scale_IG;
  Part part;

  __device__ void operator()(std::int64_t w) const {
    T* const to = y_N + fp8::codes_per_word * w;
    const auto word = static_cast<std::uint32_t>(code_W[w]);
    Floats<4> y{};
    part.for_word(w, [&](int j, std::int64_t tile) {
      y.v[j] = math::from_e4m3(static_cast<std::uint8_t>(word >> (8 * j))) * scale_IG[tile];
      if constexpr (N == 1) to[j] = rounded<T>(y.v[j]);
    });
    if constexpr (N == 4) store<4>(to, y);
  }
};

// Returns true if the elements of each word can be read or written at once.
template <class T>
bool in_words(const T* x, std::int64_t elements) {
  return aligned(x) && elements % fp8::codes_per_word == 0;
}

}  // namespace

void run(const kernel::LargestOfTiles& o, const OnStream& on) {
  const auto tiles = o.largest_IG.count();
  if (tiles == 0) return;
  expect(o.largest_IG.dense() && o.x_N.dense(), "largest_of_tiles: dense views");
  const Part part{o.first, o.x_N.count(), o.columns, o.largest_IG.extent[1]};
  with_type(o.x_N.dtype, [&]<class T>(T) {
    start("largest_of_tiles", largest_of_tiles<T>, blocks_for(tiles, 1), block_threads, 0,
          on.stream, at<std::int32_t>(o.largest_IG), at<T>(o.x_N), part);
  });
}

void run(const kernel::ScalesOfTiles& o, const OnStream& on) {
  const auto ranks = o.first_R.count(), width = o.largest_RW.extent[1];
  expect(o.scale_T.dense() && o.first_R.dense() && (width == 1 || o.largest_RW.stride[1] == 1),
         "scales_of_tiles: dense rows");
  launch_each(on.stream, "scales_of_tiles", o.scale_T.count(),
              ScaleOfTile{at<float>(o.scale_T), at<std::int32_t>(o.largest_RW),
                          at<std::int32_t>(o.first_R), ranks, width, o.largest_RW.stride[0]});
}

void run(const kernel::EncodeTiles& o, const OnStream& on) {
  expect(o.code_W.dense() && o.x_N.dense() && o.scale_IG.dense() &&
             o.code_W.count() == fp8::words_of(o.x_N.count()),
         "encode_tiles: dense views, four codes in a word");
  const Part part{o.first, o.x_N.count(), o.columns, o.scale_IG.extent[1]};
  with_type(o.x_N.dtype, [&]<class T>(T) {
    const auto* const x = at<T>(o.x_N);
    with_packs<4>(in_words(x, part.elements), [&](auto packs) {
      launch_each(on.stream, "encode_tiles", o.code_W.count(),
                  Encode<T, decltype(packs)::value>{at<std::int32_t>(o.code_W), x,
                                                    at<float>(o.scale_IG), part});
    });
  });
}

void run(const kernel::DecodeTiles& o, const OnStream& on) {
  expect(o.code_W.dense() && o.y_N.dense() && o.scale_IG.dense() &&
             o.code_W.count() == fp8::words_of(o.y_N.count()),
         "decode_tiles: dense views, four codes in a word");
  const Part part{o.first, o.y_N.count(), o.columns, o.scale_IG.extent[1]};
  with_type(o.y_N.dtype, [&]<class T>(T) {
    auto* const y = at<T>(o.y_N);
    with_packs<4>(in_words(y, part.elements), [&](auto packs) {
      launch_each(on.stream, "decode_tiles", o.code_W.count(),
                  Decode<T, decltype(packs)::value>{y, at<std::int32_t>(o.code_W),
                                                    at<float>(o.scale_IG), part});
    });
  });
}

void run(const kernel::RoundToFp8& o, const OnStream& on) {
  const auto& y = o.y;
  const auto rows = y.rows();
  if (rows == 0) return;
  expect(y.code_RW.dense() && y.scale.dense() && rows == o.x_RK.extent[0] &&
             (o.x_RK.stride[0] == 1 || o.x_RK.stride[1] == 1),
         "round_to_fp8: a matrix with a stride of 1, and a dense result");
  const auto groups = fp8::groups(o.x_RK.extent[1]), padded = y.scale.extent[1];
  with_type(o.x_RK.dtype, [&]<class T>(T) {
    const Rounding<T> all{at<T>(o.x_RK),
                          rows,
                          o.x_RK.extent[1],
                          o.x_RK.stride[0],
                          o.x_RK.stride[1],
                          at<std::int32_t>(y.code_RW),
                          at<float>(y.scale),
                          y.code_RW.extent[1],
                          groups,
                          padded};
    if (y.scales == fp8::Scales::rows)
      start("round_to_fp8", round_rows<T>,
            blocks_for((padded + strip_rows - 1) / strip_rows * groups, 1), block_threads, 0,
            on.stream, all);
    else
      start("round_to_fp8", round_tiles<T>, blocks_for(y.scale.extent[0] * padded, 1),
            block_threads, 0, on.stream, all);
  });
}

}  // namespace trireme::cuda
