#pragma once
// Code shared by the attention kernels. Each of a thread block's 8 warps processes one row. Rows
// that all warps need are loaded into shared memory in tiles of 32 rows, one row for each lane.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/math/softcap.hpp"

namespace trireme::cuda {

// For each query, the index of the first key of its document, counted from the call's first key. If
// `data` is null, every index is 0.
struct DocumentStarts {
  const std::int32_t* data;
  std::int64_t sample, token, key_at;
  __device__ std::int64_t operator()(std::int64_t b, std::int64_t t) const {
    return data ? data[b * sample + t * token] - key_at : 0;
  }
};

// Inputs of attention. Query head h reads key/value head h * G / H.
template <class T>
struct AttentionInputs {
  Heads<const T> q, k, v;
  DocumentStarts start;
  AttentionDims dims;
};
template <class T, class O>
AttentionInputs<T> inputs_of(const O& o) {
  const auto& s = o.start_BT;
  return {heads<T>(o.q_BTHD),
          heads<T>(o.k_BTGD),
          heads<T>(o.v_BTGD),
          {at<std::int32_t>(s), s.stride[0], s.stride[1], o.shape.key_at},
          dims_of(o.shape)};
}

// Results of the forward pass. `state` holds the partial results from earlier pieces of keys.
template <class T>
struct AttentionResults {
  Heads<T> o;
  RowNumbers<float> lse;
  float* state;
  Piece piece;
};
template <class T>
AttentionResults<T> results_of(const kernel::Attention& o) {
  return {heads<T>(o.o_BTHD), row_numbers(o.lse_BHT), reinterpret_cast<float*>(o.state.data),
          o.piece};
}

// Operands of the backward pass besides AttentionInputs. dk and dv have type S.
template <class T, class S>
struct AttentionGradients {
  Heads<T> dq;
  Heads<S> dk, dv;
  Heads<const T> d_o;
  RowNumbers<const float> lse;
  float* delta_BHT;  // scratch
  float* state;      // sums of dq between pieces of keys
  Piece piece;
  Accumulate how;  // of dk and dv
};
template <class T, class S>
AttentionGradients<T, S> gradients_of(const kernel::AttentionGrad& o) {
  return {.dq = heads<T>(o.dq_BTHD),
          .dk = heads<S>(o.dk_BTGD),
          .dv = heads<S>(o.dv_BTGD),
          .d_o = heads<T>(o.do_BTHD),
          .lse = row_numbers(o.lse_BHT),
          .delta_BHT = reinterpret_cast<float*>(o.workspace.data),
          .state = reinterpret_cast<float*>(o.state.data),
          .piece = o.piece,
          .how = o.keys};
}

inline constexpr int attention_warps = 8;
inline constexpr int attention_threads = attention_warps * warp;
// Maximum number of a row's elements that one lane holds.
inline constexpr int lane_dims = static_cast<int>(widest_head) / warp;

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
template <class T>
__device__ T& number_of(const RowNumbers<T>& x, std::int64_t b, std::int64_t t, std::int64_t h) {
  return x.data[b * x.sample + h * x.head + t * x.token];
}

// Returns the row length of a tile in floats. One extra float puts the elements of a column into
// different memory banks.
inline constexpr int tile_stride(int dim) {
  return dim + 1;
}

// A half-open range of the call's keys or queries.
struct Range {
  std::int64_t begin, end;
};
// Returns the keys that query t of sample b attends to.
template <class T>
__device__ Range keys_of(const AttentionInputs<T>& a, std::int64_t b, std::int64_t t) {
  const auto& s = a.dims;
  const auto own = t + s.ahead;
  return {max(max(own + 1 - s.window, a.start(b, t)), std::int64_t{0}), min(own + 1, s.keys)};
}

// Returns the end of the range of sample b's queries that attend to any key up to `last`. The
// queries after it belong to later documents or are outside the window. All lanes of a warp call
// the function with the same arguments. Each round, they read 32 starts at once: a binary search
// would wait for memory once per bit.
template <class T>
__device__ std::int64_t queries_end(const AttentionInputs<T>& a, std::int64_t b,
                                    std::int64_t last) {
  const auto& s = a.dims;
  auto begin = std::int64_t{0}, end = max(min(last - s.ahead + s.window, s.tokens), begin);
  if (!a.start.data) return end;
  while (begin < end) {
    const auto step = (end - begin + warp - 1) / warp, t = begin + lane_of() * step;
    const bool attends = t < end && a.start(b, t) <= last;
    const int n = __popc(__ballot_sync(0xffffffffU, attends));  // starts never decrease
    if (n == 0) return begin;
    end = min(end, begin + n * step);
    begin += (n - 1) * step + 1;
  }
  return end;
}

// Returns the first key of the first tile that query t attends to. Later queries attend to no
// earlier tile.
template <class T>
__device__ std::int64_t first_tile(const AttentionInputs<T>& a, std::int64_t b, std::int64_t t) {
  return keys_of(a, b, t).begin / warp * warp;
}

// The lanes whose rows of a tile lie in a range. `begin` is the index of the tile's first row.
struct Lanes {
  int from, end;
  __device__ bool has(int lane) const { return from <= lane && lane < end; }
  __device__ bool empty() const { return from >= end; }
};
__device__ inline Lanes lanes_of(const Range& seen, std::int64_t begin) {
  constexpr std::int64_t all = warp;
  return {static_cast<int>(min(max(seen.begin - begin, std::int64_t{0}), all)),
          static_cast<int>(min(max(seen.end - begin, std::int64_t{0}), all))};
}

// Loads a tile: tile[r] = row first + r of head h. Rows from `tokens` on become zeros. The rows are
// distributed over the warps.
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

// Adds rows of a tile: sum[i] += factor of lane r * dim (lane + 32 i) of row r, for the rows
// [first, end) only. Masked rows are skipped rather than multiplied by 0, because they may contain
// NaNs.
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

template <class T>
__device__ void load_row(float (&sum)[lane_dims], const T* row, int dim) {
#pragma unroll
  for (int i = 0; i < lane_dims; ++i)
    if (lane_of() + i * warp < dim) sum[i] = widen(row[lane_of() + i * warp]);
}

// Selects plain scores or scores with a soft cap. Kernels take it as a template argument, so that
// kernels without a cap spend no registers on the cap.
enum class Scores : std::uint8_t { plain, capped };
template <class F>
void with_scores(const AttentionDims& s, const F& f) {
  if (s.softcap > 0) return f(std::integral_constant<Scores, Scores::capped>{});
  f(std::integral_constant<Scores, Scores::plain>{});
}
template <Scores kind>
__device__ float score_of(float product, const AttentionDims& s) {
  const float score = product * s.scale;
  return kind == Scores::capped ? math::capped(score, s.softcap) : score;
}
// Returns the derivative of the score with respect to scale * product, given the score.
template <Scores kind>
__device__ float score_slope(float score, const AttentionDims& s) {
  return kind == Scores::capped ? math::capped_slope(score, s.softcap) : 1.0F;
}

// Returns the bytes of shared memory for `tiles` tiles of 32 rows, plus `sets` rows for each warp.
inline std::size_t tile_bytes(int tiles, int sets, std::int64_t dim) {
  return static_cast<std::size_t>((tiles * warp + sets * attention_warps) *
                                  tile_stride(static_cast<int>(dim))) *
         sizeof(float);
}

}  // namespace trireme::cuda
