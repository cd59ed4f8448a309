// Attention of new positions to cached keys and values. A thread block computes the query heads of
// one key-value head, for one query and one part of the positions, so that each key and value is
// read once. A second kernel joins the parts in order. Parts begin at fixed positions. The bits of
// a result therefore depend only on its head and position.
#include "kernels/cuda/kernels/attention_tile.cuh"
#include "kernels/math/exp.hpp"

namespace trireme::cuda {
namespace {

constexpr std::int64_t part_keys = 256;  // positions of a part; a multiple of the tile's 32
constexpr float lowest = -3.402823466e38F;

template <class T>
struct CachedInputs {
  Heads<const T> q, k, v;     // of the new positions
  Heads<T> k_cache, v_cache;  // position p is in row p % rows
  std::int64_t rows, at;
  const T* sink_H;  // or null
  AttentionDims dims;
  // For each query, head and part: D sums of values weighted by e^(score - most), then `most` and
  // the sum of the weights.
  float* part_THPD;
  std::int64_t first_part, parts;
};

__device__ inline std::int64_t part_floats(std::int64_t dim) {
  return dim + 2;
}
template <class T>
__device__ float* part_of(const CachedInputs<T>& a, std::int64_t t, std::int64_t h,
                          std::int64_t part) {
  return a.part_THPD +
         ((t * a.dims.heads + h) * a.parts + part - a.first_part) * part_floats(a.dims.head_dim);
}

// The positions that query t attends to.
__device__ inline Range positions_of(const AttentionDims& s, std::int64_t at, std::int64_t t) {
  const auto end = at + t + 1;
  return {max(end - s.window, std::int64_t{0}), end};
}

// Loads the tile of positions [begin, begin + 32). A position that `seen` does not contain becomes
// zeros. Positions of a tile are consecutive rows of the cache.
template <class T>
__device__ void load_positions(float* tile, const Heads<T>& cache, const Heads<const T>& fresh,
                               const CachedInputs<T>& a, std::int64_t g, std::int64_t begin,
                               const Range& seen) {
  const int D = static_cast<int>(a.dims.head_dim);
  for (int r = warp_of(); r < warp; r += attention_warps) {
    const auto p = begin + r;
    const bool known = seen.begin <= p && p < seen.end;
    const T* const row = p < a.at ? cache.data + p % a.rows * cache.token + g * cache.head
                                  : fresh.data + (p - a.at) * fresh.token + g * fresh.head;
    for (int d = lane_of(); d < D; d += warp)
      tile[r * tile_stride(D) + d] = known ? widen(row[d]) : 0.0F;
  }
}

// A block for each part along x, and for each query and key-value head along y. The blocks of a
// query's last part also store its key and value in the cache. No query reads that row of the
// cache, because it takes new positions from their own operands.
template <Scores kind, class T>
__global__ void __launch_bounds__(attention_threads) cached_parts(CachedInputs<T> a) {
  float* const shared = block_memory();
  const auto& s = a.dims;
  const int D = static_cast<int>(s.head_dim), stride = tile_stride(D);
  float *const keys = shared, *const values = keys + warp * stride;
  float* const query = values + warp * stride + warp_of() * stride;
  const auto t = static_cast<std::int64_t>(blockIdx.y) / s.kv_heads,
             g = static_cast<std::int64_t>(blockIdx.y) % s.kv_heads;
  const auto part = a.first_part + static_cast<std::int64_t>(blockIdx.x);
  const auto all = positions_of(s, a.at, t);
  const Range seen{max(all.begin, part * part_keys), min(all.end, (part + 1) * part_keys)};
  if (seen.begin >= seen.end) return;
  if (seen.end == all.end) {
    const auto row = (a.at + t) % a.rows;
    for (int d = static_cast<int>(threadIdx.x); d < D; d += attention_threads) {
      a.k_cache.data[row * a.k_cache.token + g * a.k_cache.head + d] =
          a.k.data[t * a.k.token + g * a.k.head + d];
      a.v_cache.data[row * a.v_cache.token + g * a.v_cache.head + d] =
          a.v.data[t * a.v.token + g * a.v.head + d];
    }
  }
  // Head h reads key-value head h * G / H.
  const auto first_head = (g * s.heads + s.kv_heads - 1) / s.kv_heads,
             end_head = ((g + 1) * s.heads + s.kv_heads - 1) / s.kv_heads;
  for (auto h0 = first_head; h0 < end_head; h0 += attention_warps) {
    const auto h = h0 + warp_of();
    const bool has_head = h < end_head;
    for (int d = lane_of(); d < D; d += warp)
      query[d] = has_head ? widen(a.q.data[t * a.q.token + h * a.q.head + d]) : 0.0F;
    float most = lowest, total = 0, sum[lane_dims]{};
    for (auto begin = seen.begin / warp * warp; begin < seen.end; begin += warp) {
      __syncthreads();  // all warps have read the previous tile
      load_positions(keys, a.k_cache, a.k, a, g, begin, seen);
      load_positions(values, a.v_cache, a.v, a, g, begin, seen);
      __syncthreads();
      if (!has_head) continue;
      const auto lanes = lanes_of(seen, begin);
      const bool sees = lanes.has(lane_of());
      const float score = score_of<kind>(dot(query, keys + lane_of() * stride, D), s);
      const float larger = fmaxf(most, warp_max(sees ? score : lowest));
      const float shrink = math::exp(most - larger);
      const float p = sees ? math::exp(score - larger) : 0.0F;
      most = larger;
      total = total * shrink + warp_sum(p);
#pragma unroll
      for (float& x : sum) x *= shrink;
      add_rows(sum, p, values, lanes.from, lanes.end, D);
    }
    if (!has_head) continue;
    float* const to = part_of(a, t, h, part);
    store_row(to, sum, 1.0F, D);
    if (lane_of() == 0) to[D] = most;
    if (lane_of() == 0) to[D + 1] = total;
  }
}

// A warp for each head of a query joins its parts in order.
template <class T>
__global__ void __launch_bounds__(attention_threads) joined_parts(Heads<T> o, CachedInputs<T> a) {
  const auto& s = a.dims;
  const auto row = static_cast<std::int64_t>(blockIdx.x) * attention_warps + warp_of();
  if (row >= s.tokens * s.heads) return;
  const auto t = row / s.heads, h = row % s.heads;
  const int D = static_cast<int>(s.head_dim);
  const auto seen = positions_of(s, a.at, t);
  const auto begin = seen.begin / part_keys, end = (seen.end + part_keys - 1) / part_keys;
  float most = a.sink_H ? widen(a.sink_H[h]) : lowest;
  for (auto part = begin; part < end; ++part) most = fmaxf(most, part_of(a, t, h, part)[D]);
  float total = a.sink_H ? math::exp(widen(a.sink_H[h]) - most) : 0.0F, sum[lane_dims]{};
  for (auto part = begin; part < end; ++part) {
    const float* const from = part_of(a, t, h, part);
    const float factor = math::exp(from[D] - most);
    float values[lane_dims]{};
    load_row(values, from, D);
    total += from[D + 1] * factor;
#pragma unroll
    for (int i = 0; i < lane_dims; ++i) sum[i] += values[i] * factor;
  }
  store_row(o.data + t * o.token + h * o.head, sum, 1.0F / total, D);
}

// A [T, H, D] view as Heads of one sample.
template <class T, class V>
auto rows_of(const V& v) {
  using Element = std::conditional_t<std::is_same_v<V, ConstView>, const T, T>;
  return Heads<Element>{at<T>(v), 0, v.stride[0], v.stride[1]};
}

// The call for queries [begin, begin + count).
kernel::CachedAttention queries(const kernel::CachedAttention& o, std::int64_t begin,
                                std::int64_t count) {
  auto some = o;
  some.o_THD = o.o_THD.slice(0, begin, count);
  some.q_THD = o.q_THD.slice(0, begin, count);
  some.k_TGD = o.k_TGD.slice(0, begin, count);
  some.v_TGD = o.v_TGD.slice(0, begin, count);
  some.at = o.at + begin;
  return some;
}

void attend_some(const kernel::CachedAttention& o, const OnStream& on) {
  const auto T = o.q_THD.extent[0], H = o.q_THD.extent[1], D = o.q_THD.extent[2],
             G = o.k_TGD.extent[1];
  const auto s = dims_of({.batch = 1,
                          .tokens = T,
                          .heads = H,
                          .kv_heads = G,
                          .head_dim = D,
                          .scale = o.scale,
                          .window = o.window,
                          .softcap = o.softcap});
  const auto first_seen = o.window > 0 ? std::max<std::int64_t>(0, o.at + 1 - o.window) : 0;
  const auto first_part = first_seen / part_keys,
             parts = (o.at + T + part_keys - 1) / part_keys - first_part;
  auto* const memory =
      scratch<float>(o, on, static_cast<std::size_t>(T * H * parts * (D + 2)) * sizeof(float));
  const dim3 grid(blocks_for(parts, 1), blocks_for(T * G, 1, most_along_y));
  with_type(o.q_THD.dtype, [&]<class E>(E) {
    const CachedInputs<E> a{.q = rows_of<E>(o.q_THD),
                            .k = rows_of<E>(o.k_TGD),
                            .v = rows_of<E>(o.v_TGD),
                            .k_cache = rows_of<E>(o.k_cache_PGD),
                            .v_cache = rows_of<E>(o.v_cache_PGD),
                            .rows = o.k_cache_PGD.extent[0],
                            .at = o.at,
                            .sink_H = at<E>(o.sink_H),
                            .dims = s,
                            .part_THPD = memory,
                            .first_part = first_part,
                            .parts = parts};
    with_scores(s, [&](auto kind) {
      start(o.name.data(), cached_parts<kind.value, E>, grid, attention_threads,
            tile_bytes(2, 1, D), on.stream, a);
    });
    start(o.name.data(), joined_parts<E>, blocks_for(T * H, attention_warps), attention_threads, 0,
          on.stream, rows_of<E>(o.o_THD), a);
  });
}

}  // namespace

// Processes as many queries at a time as the lent memory can hold.
void run(const kernel::CachedAttention& o, const OnStream& on) {
  const auto T = o.q_THD.extent[0];
  if (o.o_THD.count() == 0) return;
  const auto parts = (o.at + T + part_keys - 1) / part_keys;
  const auto query_bytes = o.q_THD.extent[1] * parts * (o.q_THD.extent[2] + 2) *
                           static_cast<std::int64_t>(sizeof(float));
  check_cached(o, on.scratch, query_bytes);
  const auto lent_bytes = static_cast<std::int64_t>(on.scratch.span_bytes());
  const auto some = std::clamp<std::int64_t>(
      std::min(lent_bytes / query_bytes, most_along_y / o.k_TGD.extent[1]), 1, T);
  for (std::int64_t t = 0; t < T; t += some) attend_some(queries(o, t, std::min(some, T - t)), on);
}

}  // namespace trireme::cuda
