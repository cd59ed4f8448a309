// Rounds matrices to fp8. A thread block processes 128 columns. If each row has its own scale, the
// block processes 32 rows, otherwise a tile of 128 rows. It copies 32 rows at a time to shared
// memory. Threads with consecutive numbers therefore read adjacent elements, whether the operand is
// stored by rows or by columns.
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

template <class T>
__global__ void __launch_bounds__(block_threads) round_tiles(Rounding<T> o) {
  alignas(16) __shared__ Strip strip;
  __shared__ std::uint32_t of_warps[block_threads / warp];
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
  largest = warp_largest(largest);
  if (threadIdx.x % warp == 0) of_warps[my_warp] = largest;
  __syncthreads();
  for (const auto other : of_warps) largest = std::max(largest, other);
  const float scale = math::fp8_scale(largest);
  if (threadIdx.x == 0) o.scale[blockIdx.x] = scale;
  for (auto row = first; row < last; row += strip_rows) {
    load_strip(strip, o, row, g * columns);
    __syncthreads();
    for (int r = my_warp; r < strip_rows && row + r < last; r += block_threads / warp)
      encode(o, row + r, g, of_lane(strip, r), scale);
    __syncthreads();
  }
}

}  // namespace

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
