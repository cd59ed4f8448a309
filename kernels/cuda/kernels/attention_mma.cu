// Attention on tensor cores with the algorithm of FlashAttention-2 (Dao 2023). Each warp computes
// 16 queries. The block loads keys and values in tiles. If a tile has a score that is larger than
// all earlier ones, the warp rescales its sums. Tiles that no query attends to are skipped.
// Probabilities are rounded to bf16 before they are multiplied with v.
#include "kernels/cuda/kernels/attention_mma.cuh"
#include "kernels/math/log.hpp"

namespace trireme::cuda {
namespace {

constexpr float lowest = -3.402823466e38F;

// Tile sizes for heads of up to D dims. Each warp of a thread block computes M x 16 queries. Keys
// are loaded in tiles of `keys` rows. `blocks` thread blocks run on a multiprocessor at a time.
template <int D>
struct Blocking {
  static constexpr int M = 1, warps = 4, keys = 64, blocks = D <= 64 ? 3 : 2;
  static constexpr int threads = warps * warp, queries = warps * M * mma_rows;
  static constexpr std::size_t shared_bytes = tile_bytes_of<D>(queries + 4 * keys);
  static_assert(shared_bytes <= most_shared_bytes);
};

// State of the softmax over the keys so far, for the rows of one lane: the largest score times
// log2 e, the total of the exponentials, and the weighted sum of values.
template <int D, int M>
struct OnlineSoftmax {
  float most[M][2], total[M][2];
  Sums sum[M][D / 8];
};

__device__ inline float* kept_of(const AttentionResults<bf16>& to, const AttentionDims& s,
                                 std::int64_t t) {
  return to.state + (blockIdx.y * s.tokens + t) * kept_floats(Direction::forward, s.head_dim);
}

// Loads the state that earlier pieces of keys left. Four lanes share a row; one of them gets the
// total.
template <int D, int M>
__device__ void load_state(OnlineSoftmax<D, M>& so_far, const float* kept, int m, int r, int dim) {
#pragma unroll
  for (int j = 0; j < D / 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (const int d = 8 * j + lane_column() + i; d < dim) so_far.sum[m][j].v[2 * r + i] = kept[d];
  so_far.most[m][r] = fmaxf(kept[dim] * log2_e, lowest);
  so_far.total[m][r] = lane_column() == 0 ? kept[dim + 1] : 0;
}

// Writes rows to the results, or to the state if further pieces of keys follow.
template <int D, int M>
__device__ void store_rows(const OnlineSoftmax<D, M>& so_far, const AttentionResults<bf16>& to,
                           const AttentionDims& s, std::int64_t b, std::int64_t h, std::int64_t t,
                           int m, int r) {
  const int dim = static_cast<int>(s.head_dim);
  const float most = so_far.most[m][r] * ln_2, total = so_far.total[m][r];
  if (ends_keys(to.piece)) {
    bf16* const o = row_of(to.o, b, t, h);
    const float factor = 1.0F / total;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const float* const two = &so_far.sum[m][j].v[2 * r];
      if (const int d = 8 * j + lane_column(); d < dim)
        *reinterpret_cast<unsigned*>(o + d) = bf16_pair(two[0] * factor, two[1] * factor);
    }
    if (lane_column() == 0) number_of(to.lse, b, t, h) = most + math::log(total);
    return;
  }
  float* const kept = kept_of(to, s, t);
#pragma unroll
  for (int j = 0; j < D / 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (const int d = 8 * j + lane_column() + i; d < dim) kept[d] = so_far.sum[m][j].v[2 * r + i];
  if (lane_column() != 0) return;
  kept[dim] = most;
  kept[dim + 1] = total;
}

// Adds one tile to the softmax. Replaces the scores by exponentials relative to the largest score
// so far, and rescales the earlier sums.
template <int D, int M, int N>
__device__ void add_tile(Sums (&scores)[N / 8], OnlineSoftmax<D, M>& so_far, int m) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float larger = so_far.most[m][r];
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
      larger = fmaxf(larger, fmaxf(scores[j].v[2 * r], scores[j].v[2 * r + 1]));
    larger = row_max(larger);
    const float base = larger == lowest ? 0 : larger;  // if all keys so far are hidden
    const float shrink = special_exp2(so_far.most[m][r] - base);
    float total = so_far.total[m][r] * shrink;
    so_far.most[m][r] = larger;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      so_far.sum[m][j].v[2 * r] *= shrink;
      so_far.sum[m][j].v[2 * r + 1] *= shrink;
    }
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
#pragma unroll
      for (int i = 2 * r; i < 2 * r + 2; ++i) {
        scores[j].v[i] = special_exp2(scores[j].v[i] - base);
        total += scores[j].v[i];
      }
    so_far.total[m][r] = total;
  }
}

template <int D, Scores kind>
__global__ void __launch_bounds__(Blocking<D>::threads, Blocking<D>::blocks)
    mma_attention(AttentionResults<bf16> to, AttentionInputs<bf16> a) {
  using By = Blocking<D>;
  constexpr int M = By::M, N = By::keys;
  const auto& s = a.dims;
  const Tile<D> queries{shared_address(reinterpret_cast<bf16*>(block_memory()))};
  const auto keys = [&](int stage) { return Tile<D>{queries.row(By::queries + 2 * stage * N)}; };
  const auto values = [&](int stage) { return Tile<D>{keys(stage).row(N)}; };
  // The last queries attend to most keys, so they are computed first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * By::queries;
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads, g = h * s.kv_heads / s.heads;
  const int last = min(first + By::queries, static_cast<int>(s.tokens)) - 1;
  start_rows<By::threads, By::queries>(queries, a.q, b, h, first, s.tokens, s.head_dim);

  // The keys that any of this warp's queries attends to, and those that all of them attend to.
  const int own = first + warp_of() * M * mma_rows;
  const auto seen = keys_of_rows(a, b, own, min(own + M * mma_rows - 1, last));
  Span range[M][2];
  OnlineSoftmax<D, M> so_far;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int t = own + m * mma_rows + lane_row() + 8 * r;
      range[m][r] = t <= last ? span_of(keys_of(a, b, t)) : Span{0, 0};
      so_far.most[m][r] = lowest;
      so_far.total[m][r] = 0;
#pragma unroll
      for (int j = 0; j < D / 8; ++j) so_far.sum[m][j].v[2 * r] = so_far.sum[m][j].v[2 * r + 1] = 0;
      if (t <= last && !begins_keys(to.piece))
        load_state(so_far, kept_of(to, s, t), m, r, static_cast<int>(s.head_dim));
    }

  const auto load = [&](int tile, int stage) {
    start_rows<By::threads, N>(keys(stage), a.k, b, g, tile, s.keys, s.head_dim);
    start_rows<By::threads, N>(values(stage), a.v, b, g, tile, s.keys, s.head_dim);
  };
  const auto use = [&](int tile, int stage) {
    if (!seen.some(tile, N)) return;
    Sums scores[M][N / 8] = {};
    add_scores<M, N>(
        scores, [&](int m, int k) { return queries.left((warp_of() * M + m) * mma_rows, 16 * k); },
        keys(stage));
    const float factor = kind == Scores::capped ? log2_e : s.scale * log2_e;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int j = 0; j < N / 8; ++j)
#pragma unroll
        for (float& x : scores[m][j].v)
          x = factor * (kind == Scores::capped ? score_of<kind>(x, s) : x);
    if (!seen.all(tile, N))
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const Span here{range[m][r].begin - tile, range[m][r].end - tile};
#pragma unroll
          for (int j = 0; j < N / 8; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i)
              if (!here.has(8 * j + lane_column() + i)) scores[m][j].v[2 * r + i] = lowest;
        }
#pragma unroll
    for (int m = 0; m < M; ++m) add_tile<D, M, N>(scores[m], so_far, m);
    add_weighted<M, N>(so_far.sum, scores, values(stage));
  };
  for_each_tile(static_cast<int>(keys_of(a, b, first).begin) / N * N,
                static_cast<int>(keys_of(a, b, last).end), N, load, use);

#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      so_far.total[m][r] = row_sum(so_far.total[m][r]);
      if (const int t = own + m * mma_rows + lane_row() + 8 * r; t <= last)
        store_rows(so_far, to, s, b, h, t, m, r);
    }
}

}  // namespace

bool attend_with_mma(const kernel::Attention& o, Stream stream) {
  if (!mma_takes(o.shape, {o.q_BTHD, o.k_BTGD, o.v_BTGD, o.o_BTHD})) return false;
  const auto s = dims_of(o.shape);
  with_tile_width(s.head_dim, [&](auto D) {
    using By = Blocking<D.value>;
    const dim3 grid(blocks_for(s.tokens, By::queries),
                    blocks_for(s.batch * s.heads, 1, most_along_y));
    with_scores(s, [&](auto kind) {
      start("attention", mma_attention<D.value, kind.value>, grid, By::threads, By::shared_bytes,
            stream, results_of<bf16>(o), inputs_of<bf16>(o));
    });
  });
  return true;
}

}  // namespace trireme::cuda
