// Attention with one query row for each warp. Keys and values are loaded in tiles, with a running
// softmax (Milakov, Gimelshein 2018; Dao et al. 2022). A row of probabilities is never stored.
#include "kernels/cuda/attention_state.hpp"
#include "kernels/cuda/kernels/attention_tile.cuh"
#include "kernels/math/exp.hpp"
#include "kernels/math/log.hpp"

namespace trireme::cuda {
namespace {

constexpr float lowest = -3.402823466e38F;

// Results from the keys that a query has seen so far: o = sum / total, and lse = log(total e^most).
struct KnownRow {
  float most, total, sum[lane_dims];
};

template <class T>
__device__ float* kept_of(const AttentionResults<T>& to, const AttentionDims& s, std::int64_t t) {
  return to.state + (blockIdx.y * s.tokens + t) * kept_floats(Direction::forward, s.head_dim);
}

// Writes a row to the results with the last piece, and to the state otherwise.
template <class T>
__device__ void put_row(const AttentionResults<T>& to, const AttentionDims& s, std::int64_t t,
                        const KnownRow& row) {
  const int D = static_cast<int>(s.head_dim);
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads;
  if (ends_keys(to.piece)) {
    store_row(row_of(to.o, b, t, h), row.sum, 1.0F / row.total, D);
    if (lane_of() == 0) number_of(to.lse, b, t, h) = row.most + math::log(row.total);
    return;
  }
  float* const kept = kept_of(to, s, t);
  __syncwarp();  // all lanes have read the previous state
  store_row(kept, row.sum, 1.0F, D);
  if (lane_of() == 0) kept[D] = row.most;
  if (lane_of() == 0) kept[D + 1] = row.total;
}

template <Scores kind, class T>
__global__ void __launch_bounds__(attention_threads, 2)
    attention_rows(AttentionResults<T> to, AttentionInputs<T> a) {
  float* const shared = block_memory();
  const auto& s = a.dims;
  const int D = static_cast<int>(s.head_dim), stride = tile_stride(D);
  float *const keys = shared, *const values = keys + warp * stride;
  float* const queries = values + warp * stride;
  const auto first = static_cast<std::int64_t>(blockIdx.x) * attention_warps;
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads, g = h * s.kv_heads / s.heads;
  const auto t = first + warp_of(), last = min(first + attention_warps, s.tokens) - 1;
  load_tile(queries, a.q, b, h, first, attention_warps, s.tokens, D);
  KnownRow row{lowest, 0, {}};
  if (!begins_keys(to.piece) && t <= last) {
    const float* const kept = kept_of(to, s, t);
    load_row(row.sum, kept, D);
    row.most = kept[D];
    row.total = kept[D + 1];
  }
  const auto seen = t <= last ? keys_of(a, b, t) : Range{0, 0};
  const auto end = keys_of(a, b, last).end;
  for (auto begin = first_tile(a, b, first); begin < end; begin += warp) {
    __syncthreads();  // all warps have read the previous tile
    load_tile(keys, a.k, b, g, begin, warp, s.keys, D);
    load_tile(values, a.v, b, g, begin, warp, s.keys, D);
    __syncthreads();
    const auto lanes = lanes_of(seen, begin);
    if (lanes.empty()) continue;
    const bool sees = lanes.has(lane_of());
    const float score =
        score_of<kind>(dot(queries + warp_of() * stride, keys + lane_of() * stride, D), s);
    const float larger = fmaxf(row.most, warp_max(sees ? score : lowest));
    const float shrink = math::exp(row.most - larger);
    const float p = sees ? math::exp(score - larger) : 0.0F;
    row.most = larger;
    row.total = row.total * shrink + warp_sum(p);
#pragma unroll
    for (float& x : row.sum) x *= shrink;
    add_rows(row.sum, p, values, lanes.from, lanes.end, D);
  }
  if (t <= last) put_row(to, s, t, row);
}

// Joins o and lse of a single piece with the state. Each query must attend to a key of the piece.
template <class T>
__global__ void __launch_bounds__(attention_threads)
    joined_rows(AttentionResults<T> to, Heads<const T> o, RowNumbers<const float> lse_BHT,
                AttentionDims s) {
  const auto t = static_cast<std::int64_t>(blockIdx.x) * attention_warps + warp_of();
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads;
  if (t >= s.tokens) return;
  const int D = static_cast<int>(s.head_dim);
  KnownRow row{number_of(lse_BHT, b, t, h), 1, {}};
  load_row(row.sum, row_of(o, b, t, h), D);
  if (!begins_keys(to.piece)) {
    const float* const kept = kept_of(to, s, t);
    const float larger = fmaxf(row.most, kept[D]);
    const float before = math::exp(kept[D] - larger), now = math::exp(row.most - larger);
    float sum[lane_dims]{};
    load_row(sum, kept, D);
    row.total = kept[D + 1] * before + now;
    row.most = larger;
#pragma unroll
    for (int i = 0; i < lane_dims; ++i) row.sum[i] = sum[i] * before + row.sum[i] * now;
  }
  put_row(to, s, t, row);
}

dim3 grid_of(const AttentionDims& s) {
  return {blocks_for(s.tokens, attention_warps), blocks_for(s.batch * s.heads, 1, most_along_y)};
}

}  // namespace

void attend(const kernel::Attention& o, Stream stream) {
  const auto s = dims_of(o.shape);
  if (s.batch * s.heads * s.tokens == 0 || attend_with_mma(o, stream)) return;
  const auto bytes = tile_bytes(2, 1, s.head_dim);
  with_type(o.q_BTHD.dtype, [&]<class T>(T) {
    with_scores(s, [&](auto kind) {
      start("attention", attention_rows<kind.value, T>, grid_of(s), attention_threads, bytes,
            stream, results_of<T>(o), inputs_of<T>(o));
    });
  });
}

void join_piece(const kernel::Attention& o, const ConstView& o_BTHD, const ConstView& lse_BHT,
                Stream stream) {
  const auto s = dims_of(o.shape);
  if (s.batch * s.heads * s.tokens == 0) return;
  with_type(o.q_BTHD.dtype, [&]<class T>(T) {
    start("attention", joined_rows<T>, grid_of(s), attention_threads, 0, stream, results_of<T>(o),
          heads<T>(o_BTHD), row_numbers(lse_BHT), s);
  });
}

}  // namespace trireme::cuda
