// Gradient of attention on tensor cores. It uses no atomic additions, so equal inputs give equal
// bits. One kernel computes dq; each of its warps has 16 queries. The other kernel computes dk and
// dv; each of its warps has 16 keys and loops over all queries of all heads that read these keys.
// The formulas are those of attention_grad.cu. Probabilities and ds are rounded to bf16 before they
// are multiplied.
#include "kernels/cuda/kernels/attention_mma.cuh"

namespace trireme::cuda {
namespace {

// Tile sizes for heads of up to D dims. Each warp of a thread block has M x 16 rows of its own and
// loops over the other rows in tiles of `met`. `blocks` thread blocks run on a multiprocessor at a
// time.
template <int M_, int Met, int Blocks, int D>
struct Blocking {
  static constexpr int M = M_, met = Met, blocks = Blocks, warps = 4;
  static constexpr int threads = warps * warp, rows = warps * M * mma_rows;
  static constexpr std::size_t shared_bytes = tile_bytes_of<D>(2 * rows + 4 * met);
  static_assert(shared_bytes <= most_shared_bytes);
};
template <int D>
using ByQuery = std::conditional_t<D <= 64, Blocking<1, 32, 3, D>, Blocking<1, 48, 2, D>>;
template <int D>
using ByKey = std::conditional_t<D <= 64, Blocking<1, 32, 3, D>, Blocking<1, 32, 2, D>>;

// p and ds / scale of a (query, key) pair.
struct Pair {
  float p, ds;
};
template <Scores kind>
__device__ Pair pair_of(float product, float dp, float lse_log2, float delta,
                        const AttentionDims& s) {
  if constexpr (kind == Scores::capped) {
    const float score = score_of<kind>(product, s);
    const float p = special_exp2(score * log2_e - lse_log2);
    return {p, p * (dp - delta) * score_slope<kind>(score, s)};
  } else {
    const float p = special_exp2(product * (s.scale * log2_e) - lse_log2);
    return {p, p * (dp - delta)};
  }
}

template <int D, Scores kind, class S>
__global__ void __launch_bounds__(ByQuery<D>::threads, ByQuery<D>::blocks)
    mma_query_grad(AttentionGradients<bf16, S> a, AttentionInputs<bf16> in) {
  using By = ByQuery<D>;
  constexpr int M = By::M, N = By::met;
  const auto& s = in.dims;
  const Tile<D> queries{shared_address(reinterpret_cast<bf16*>(block_memory()))};
  const Tile<D> grads{queries.row(By::rows)};
  const auto keys = [&](int stage) { return Tile<D>{grads.row(By::rows + 2 * stage * N)}; };
  const auto values = [&](int stage) { return Tile<D>{keys(stage).row(N)}; };
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * By::rows;
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads, g = h * s.kv_heads / s.heads;
  const int last = min(first + By::rows, static_cast<int>(s.tokens)) - 1;
  start_rows<By::threads, By::rows>(queries, in.q, b, h, first, s.tokens, s.head_dim);
  start_rows<By::threads, By::rows>(grads, a.d_o, b, h, first, s.tokens, s.head_dim);

  const int own_row = warp_of() * M * mma_rows;
  const int own = first + own_row;
  const auto seen = keys_of_rows(in, b, own, min(own + M * mma_rows - 1, last));
  Span range[M][2];
  float lse[M][2], delta[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int t = own + m * mma_rows + lane_row() + 8 * r;
      const bool there = t <= last;
      range[m][r] = there ? span_of(keys_of(in, b, t)) : Span{0, 0};
      lse[m][r] = there ? number_of(a.lse, b, t, h) * log2_e : 0;
      delta[m][r] = there ? a.delta_BHT[blockIdx.y * s.tokens + t] : 0;
    }

  Sums dq[M][D / 8] = {};
  const auto load = [&](int tile, int stage) {
    start_rows<By::threads, N>(keys(stage), in.k, b, g, tile, s.keys, s.head_dim);
    start_rows<By::threads, N>(values(stage), in.v, b, g, tile, s.keys, s.head_dim);
  };
  const auto use = [&](int tile, int stage) {
    if (!seen.some(tile, N)) return;
    Sums ds[M][N / 8] = {}, dp[M][N / 8] = {};
    const auto rows_of = [&](const Tile<D>& x) {
      return [x, own_row](int m, int k) { return x.left(own_row + m * mma_rows, 16 * k); };
    };
    add_scores<M, N>(ds, rows_of(queries), keys(stage));
    add_scores<M, N>(dp, rows_of(grads), values(stage));
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int j = 0; j < N / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& x = ds[m][j].v[i];
          x = pair_of<kind>(x, dp[m][j].v[i], lse[m][i / 2], delta[m][i / 2], s).ds;
        }
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
              if (!here.has(8 * j + lane_column() + i)) ds[m][j].v[2 * r + i] = 0;
        }
    add_weighted<M, N>(dq, ds, keys(stage));
  };
  for_each_tile(static_cast<int>(keys_of(in, b, first).begin) / N * N,
                static_cast<int>(keys_of(in, b, last).end), N, load, use);

#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int t = own + m * mma_rows + lane_row() + 8 * r;
      if (t > last) continue;
      float* const state = a.state + (blockIdx.y * s.tokens + t) * s.head_dim;
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        const int d = 8 * j + lane_column();
        if (d >= s.head_dim) continue;
        float x = dq[m][j].v[2 * r] * s.scale, y = dq[m][j].v[2 * r + 1] * s.scale;
        if (!begins_keys(a.piece)) x += state[d], y += state[d + 1];
        if (ends_keys(a.piece))
          *reinterpret_cast<unsigned*>(row_of(a.dq, b, t, h) + d) = bf16_pair(x, y);
        else
          state[d] = x, state[d + 1] = y;
      }
    }
}

// Numbers of a tile of queries: log-sum-exps times log2 e, deltas, and the first key of each
// query's document. For rows behind the last query, the first key is larger than any key.
template <int N>
struct QueryNumbers {
  float lse[N], delta[N];
  int start[N];
};

// Writes or adds two neighbouring elements of a row. The row may be aligned to one element only.
template <class S>
__device__ void put_gradient(const Heads<S>& to, Accumulate how, std::int64_t b, std::int64_t key,
                             std::int64_t g, int d, float x, float y) {
  S* const at = row_of(to, b, key, g) + d;
  if (how == Accumulate::add) x += widen(at[0]), y += widen(at[1]);
  if (sizeof(S) == 2 && reinterpret_cast<std::uintptr_t>(at) % 4 == 0) {
    *reinterpret_cast<unsigned*>(at) = bf16_pair(x, y);
    return;
  }
  at[0] = rounded<S>(x);
  at[1] = rounded<S>(y);
}

template <int D, Scores kind, class S>
__global__ void __launch_bounds__(ByKey<D>::threads, ByKey<D>::blocks)
    mma_key_grad(AttentionGradients<bf16, S> a, AttentionInputs<bf16> in) {
  using By = ByKey<D>;
  constexpr int M = By::M, N = By::met;
  __shared__ QueryNumbers<N> numbers[2];
  const auto& s = in.dims;
  const Tile<D> keys{shared_address(reinterpret_cast<bf16*>(block_memory()))};
  const Tile<D> values{keys.row(By::rows)};
  const auto queries = [&](int stage) { return Tile<D>{values.row(By::rows + 2 * stage * N)}; };
  const auto grads = [&](int stage) { return Tile<D>{queries(stage).row(N)}; };
  const int first = static_cast<int>(blockIdx.x) * By::rows;
  const int all_heads = static_cast<int>(s.heads), groups = static_cast<int>(s.kv_heads);
  const int g = static_cast<int>(blockIdx.y) % groups, b = static_cast<int>(blockIdx.y) / groups;
  const int last = min(first + By::rows, static_cast<int>(s.keys)) - 1;
  start_rows<By::threads, By::rows>(keys, in.k, b, g, first, s.keys, s.head_dim);
  start_rows<By::threads, By::rows>(values, in.v, b, g, first, s.keys, s.head_dim);

  // A round is one tile of queries of one head. Only tiles with queries that attend to any of these
  // keys are visited.
  const int ahead = static_cast<int>(s.ahead);
  const int begin = max(first - ahead, 0) / N * N;
  const int tiles = max((static_cast<int>(queries_end(in, b, last)) - begin + N - 1) / N, 0);
  const int first_head = (g * all_heads + groups - 1) / groups;
  const int heads = ((g + 1) * all_heads + groups - 1) / groups - first_head;
  const int own_row = warp_of() * M * mma_rows;
  const int own = first + own_row, own_last = own + M * mma_rows - 1;
  // Query t attends to key j if j - ahead <= t < j - ahead + window and start(t) <= j.
  const int window = static_cast<int>(min(s.window, std::int64_t{1} << 30));
  const auto queries_of = [&](int key) {
    return Span{key - ahead, min(key - ahead + window, static_cast<int>(s.tokens))};
  };
  Sums dk[M][D / 8] = {}, dv[M][D / 8] = {};
  const auto load = [&](int round, int stage) {
    const int h = first_head + round / tiles, tile = begin + round % tiles * N;
    start_rows<By::threads, N>(queries(stage), in.q, b, h, tile, s.tokens, s.head_dim);
    start_rows<By::threads, N>(grads(stage), a.d_o, b, h, tile, s.tokens, s.head_dim);
    if (const int i = static_cast<int>(threadIdx.x); i < N) {
      const int t = tile + i;
      const bool there = t < s.tokens;
      numbers[stage].lse[i] = there ? number_of(a.lse, b, t, h) * log2_e : 0;
      numbers[stage].delta[i] = there ? a.delta_BHT[(b * s.heads + h) * s.tokens + t] : 0;
      numbers[stage].start[i] = there ? static_cast<int>(in.start(b, t)) : 0x7fffffff;
    }
  };
  const auto use = [&](int round, int stage) {
    const int tile = begin + round % tiles * N;
    const auto& query = numbers[stage];
    if (tile + N <= queries_of(own).begin || tile >= queries_of(own_last).end ||
        query.start[0] > own_last)
      return;
    Sums p[M][N / 8] = {}, ds[M][N / 8] = {};
    const auto rows_of = [&](const Tile<D>& x) {
      return [x, own_row](int m, int k) { return x.left(own_row + m * mma_rows, 16 * k); };
    };
    add_scores<M, N>(p, rows_of(keys), queries(stage));
    add_scores<M, N>(ds, rows_of(values), grads(stage));
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int n = 8 * j + lane_column() + i;
        const float lse = query.lse[n], delta = query.delta[n];
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            float &x = p[m][j].v[2 * r + i], &y = ds[m][j].v[2 * r + i];
            const auto pair = pair_of<kind>(x, y, lse, delta, s);
            x = pair.p;
            y = pair.ds;
          }
      }
    const bool all = tile >= queries_of(own_last).begin && tile + N <= queries_of(own).end &&
                     query.start[N - 1] <= own;
    if (!all)
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int key = own + m * mma_rows + lane_row() + 8 * r;
          const Span here{queries_of(key).begin - tile, queries_of(key).end - tile};
#pragma unroll
          for (int j = 0; j < N / 8; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i)
              if (const int n = 8 * j + lane_column() + i; !here.has(n) || query.start[n] > key)
                p[m][j].v[2 * r + i] = ds[m][j].v[2 * r + i] = 0;
        }
    add_weighted<M, N>(dv, p, grads(stage));
    add_weighted<M, N>(dk, ds, queries(stage));
  };
  for_each_tile(0, tiles * heads, 1, load, use);

#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = own + m * mma_rows + lane_row() + 8 * r;
      if (key > last) continue;
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        const int d = 8 * j + lane_column();
        if (d >= s.head_dim) continue;
        const float *const two_k = &dk[m][j].v[2 * r], *const two_v = &dv[m][j].v[2 * r];
        put_gradient(a.dk, a.how, b, key, g, d, two_k[0] * s.scale, two_k[1] * s.scale);
        put_gradient(a.dv, a.how, b, key, g, d, two_v[0], two_v[1]);
      }
    }
}

template <class S>
void attend_as(const kernel::AttentionGrad& o, Stream stream) {
  const auto in = inputs_of<bf16>(o);
  const auto a = gradients_of<bf16, S>(o);
  const auto& s = in.dims;
  with_tile_width(s.head_dim, [&](auto D) {
    using Q = ByQuery<D.value>;
    using K = ByKey<D.value>;
    const dim3 by_query(blocks_for(s.tokens, Q::rows),
                        blocks_for(s.batch * s.heads, 1, most_along_y));
    const dim3 by_key(blocks_for(s.keys, K::rows),
                      blocks_for(s.batch * s.kv_heads, 1, most_along_y));
    const char* const name = "attention_grad";
    with_scores(s, [&](auto kind) {
      start(name, mma_query_grad<D.value, kind.value, S>, by_query, Q::threads, Q::shared_bytes,
            stream, a, in);
      start(name, mma_key_grad<D.value, kind.value, S>, by_key, K::threads, K::shared_bytes, stream,
            a, in);
    });
  });
}

}  // namespace

bool attend_with_mma(const kernel::AttentionGrad& o, Stream stream) {
  if (!mma_takes(o.shape, {o.q_BTHD, o.k_BTGD, o.v_BTGD, o.do_BTHD, o.dq_BTHD})) return false;
  if (o.dk_BTGD.dtype == DType::bf16)
    attend_as<bf16>(o, stream);
  else
    attend_as<float>(o, stream);
  return true;
}

}  // namespace trireme::cuda
