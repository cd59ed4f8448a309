#pragma once
// What attention's kernels share: a block of 8 warps, each with one row of its own; the rows that
// all of them need go through shared memory in tiles of 32, one for each lane.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"

namespace trireme::cuda {

// Query head h reads key/value head h * G / H.
template <class T>
struct AttentionInputs {
  Heads<const T> q, k, v;
  AttentionDims dims;
};
template <class T, class O>
AttentionInputs<T> inputs_of(const O& o) {
  return {heads<T>(o.q_BTHD), heads<T>(o.k_BTGD), heads<T>(o.v_BTGD), dims_of(o.shape)};
}

inline constexpr int attention_warps = 8;
inline constexpr int attention_threads = attention_warps * warp;
inline constexpr int lane_dims = static_cast<int>(widest_head) / warp;  // of a row, most in a lane

__device__ inline int lane_of() {
  return static_cast<int>(threadIdx.x) % warp;
}
__device__ inline int warp_of() {
  return static_cast<int>(threadIdx.x) / warp;
}

template <class T>
__device__ const T* row_of(const Heads<const T>& x, std::int64_t b, std::int64_t t,
                           std::int64_t h) {
  return x.data + b * x.sample + t * x.token + h * x.head;
}
template <class T>
__device__ T* row_of(const Heads<T>& x, std::int64_t b, std::int64_t t, std::int64_t h) {
  return x.data + b * x.sample + t * x.token + h * x.head;
}

// One more float a row, so that lanes that read a column meet different banks.
inline constexpr int tile_stride(int dim) {
  return dim + 1;
}

// The keys of a tile from `begin` on that query t sees, by their lanes.
struct SeenKeys {
  int from, end;
  __device__ bool lane() const { return from <= lane_of() && lane_of() < end; }
};
__device__ inline SeenKeys keys_seen(const AttentionDims& s, std::int64_t t, std::int64_t begin) {
  return {static_cast<int>(max(t + 1 - s.window - begin, std::int64_t{0})),
          static_cast<int>(min(t + 1 - begin, std::int64_t{warp}))};
}
// Where the tiles begin that queries from t on see.
__device__ inline std::int64_t first_tile(const AttentionDims& s, std::int64_t t) {
  return max(t + 1 - s.window, std::int64_t{0}) / warp * warp;
}

// tile[r] = row first + r of head h, zeros from `tokens` on; rows of the tile by warps in turns.
template <class T>
__device__ void load_tile(float* tile, Heads<const T> x, std::int64_t b, std::int64_t h,
                          std::int64_t first, int rows, std::int64_t tokens, int dim) {
  for (int r = warp_of(); r < rows; r += attention_warps)
    for (int d = lane_of(); d < dim; d += warp)
      tile[r * tile_stride(dim) + d] =
          first + r < tokens ? widen(row_of(x, b, first + r, h)[d]) : 0.0F;
}

__device__ inline float dot(const float* a, const float* b, int dim) {
  float sum = 0;
  for (int d = 0; d < dim; ++d) sum += a[d] * b[d];
  return sum;
}

// sum[i] += factor of each lane * that lane's row of the tile, dims lane, lane + 32, ..., of the
// lanes [first, end) alone: 0 times a row that is not to be seen is not 0 when it holds a NaN.
__device__ inline void add_rows(float (&sum)[lane_dims], float factor, const float* tile, int first,
                                int end, int dim) {
  __shared__ float factors[attention_warps][warp];
  float* const mine = factors[warp_of()];
  mine[lane_of()] = factor;
  __syncwarp();
  for (int r = first; r < end; ++r) {
    const float f = mine[r];
    const float* const row = tile + r * tile_stride(dim);
#pragma unroll
    for (int i = 0; i < lane_dims; ++i)
      if (lane_of() + i * warp < dim) sum[i] += f * row[lane_of() + i * warp];
  }
  __syncwarp();  // before the next factors
}

template <class T>
__device__ void store_row(T* row, const float (&sum)[lane_dims], float factor, int dim) {
#pragma unroll
  for (int i = 0; i < lane_dims; ++i)
    if (lane_of() + i * warp < dim) row[lane_of() + i * warp] = rounded<T>(sum[i] * factor);
}

// Shared memory for `tiles` tiles of 32 rows and `sets` of the warps' own rows.
inline std::size_t tile_bytes(int tiles, int sets, std::int64_t dim) {
  return static_cast<std::size_t>((tiles * warp + sets * attention_warps) *
                                  tile_stride(static_cast<int>(dim))) *
         sizeof(float);
}

}  // namespace trireme::cuda
