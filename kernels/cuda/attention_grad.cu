// Attention's gradient without atomics: one kernel for dq, a query row a warp, and one for dk and
// dv, a key row a warp that meets all queries of all heads that read it, in order. With
// p(t, s) = exp(scale q(t).k(s) - lse(t)) and delta(t) = do(t).o(t):
//   ds = scale p (do(t).v(s) - delta(t)),  dq(t) = sum_s ds k(s),  dk(s) = sum_t ds q(t),
//   dv(s) = sum_t p do(t)
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/math/exp.hpp"

namespace trireme::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(attention_threads, 2)
    delta_rows(float* delta_BHT, Heads<const T> d_o, Heads<const T> o, AttentionDims s) {
  const auto t = static_cast<std::int64_t>(blockIdx.x) * attention_warps + warp_of();
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads;
  if (t >= s.tokens) return;
  const T *const d_row = row_of(d_o, b, t, h), *const row = row_of(o, b, t, h);
  float sum = 0;
  for (int d = lane_of(); d < s.head_dim; d += warp) sum += widen(d_row[d]) * widen(row[d]);
  sum = warp_sum(sum);
  if (lane_of() == 0) delta_BHT[blockIdx.y * s.tokens + t] = sum;
}

template <class T>
__global__ void __launch_bounds__(attention_threads, 2)
    query_grad(Heads<T> dq, Heads<const T> d_o, const float* lse_BHT, const float* delta_BHT,
               Heads<const T> q, Heads<const T> k, Heads<const T> v, AttentionDims s) {
  float* const shared = block_memory();
  const int D = static_cast<int>(s.head_dim), stride = tile_stride(D);
  float *const keys = shared, *const values = keys + warp * stride;
  float *const queries = values + warp * stride, *const grads = queries + attention_warps * stride;
  const auto first = static_cast<std::int64_t>(blockIdx.x) * attention_warps;
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads, g = h * s.kv_heads / s.heads;
  const auto t = first + warp_of(), row = blockIdx.y * s.tokens + min(t, s.tokens - 1);
  const float lse = lse_BHT[row], delta = delta_BHT[row];
  load_tile(queries, q, b, h, first, attention_warps, s.tokens, D);
  load_tile(grads, d_o, b, h, first, attention_warps, s.tokens, D);
  float sum[lane_dims]{};
  const auto end = min(s.tokens, first + attention_warps);
  for (std::int64_t begin = 0; begin < end; begin += warp) {
    __syncthreads();  // the last tile was read
    load_tile(keys, k, b, g, begin, warp, s.tokens, D);
    load_tile(values, v, b, g, begin, warp, s.tokens, D);
    __syncthreads();
    if (begin > t) continue;
    const float score = dot(queries + warp_of() * stride, keys + lane_of() * stride, D) * s.scale;
    const float dp = dot(grads + warp_of() * stride, values + lane_of() * stride, D);
    const int rows = static_cast<int>(min(t - begin + 1, std::int64_t{warp}));
    const bool seen = lane_of() < rows;
    const float ds = seen ? s.scale * math::exp(score - lse) * (dp - delta) : 0.0F;
    add_rows(sum, ds, keys, 0, rows, D);
  }
  if (t < s.tokens) store_row(row_of(dq, b, t, h), sum, 1.0F, D);
}

template <class T>
__global__ void __launch_bounds__(attention_threads, 2)
    key_grad(Heads<T> dk, Heads<T> dv, Heads<const T> d_o, const float* lse_BHT,
             const float* delta_BHT, Heads<const T> q, Heads<const T> k, Heads<const T> v,
             AttentionDims s) {
  float* const shared = block_memory();
  const int D = static_cast<int>(s.head_dim), stride = tile_stride(D);
  float *const queries = shared, *const grads = queries + warp * stride;
  float *const keys = grads + warp * stride, *const values = keys + attention_warps * stride;
  const auto first = static_cast<std::int64_t>(blockIdx.x) * attention_warps;
  const auto g = blockIdx.y % s.kv_heads, b = blockIdx.y / s.kv_heads;
  const auto j = first + warp_of();
  load_tile(keys, k, b, g, first, attention_warps, s.tokens, D);
  load_tile(values, v, b, g, first, attention_warps, s.tokens, D);
  float dk_sum[lane_dims]{}, dv_sum[lane_dims]{};
  for (std::int64_t h = 0; h < s.heads; ++h) {
    if (h * s.kv_heads / s.heads != g) continue;
    for (std::int64_t begin = first / warp * warp; begin < s.tokens; begin += warp) {
      __syncthreads();  // the last tile was read
      load_tile(queries, q, b, h, begin, warp, s.tokens, D);
      load_tile(grads, d_o, b, h, begin, warp, s.tokens, D);
      __syncthreads();
      const auto t = begin + lane_of(), row = (b * s.heads + h) * s.tokens + min(t, s.tokens - 1);
      const float score = dot(keys + warp_of() * stride, queries + lane_of() * stride, D) * s.scale;
      const float dp = dot(values + warp_of() * stride, grads + lane_of() * stride, D);
      const int from = static_cast<int>(min(max(j - begin, std::int64_t{0}), std::int64_t{warp}));
      const bool seen = lane_of() >= from && t < s.tokens;
      const float p = seen ? math::exp(score - lse_BHT[row]) : 0.0F;
      const float ds = seen ? s.scale * p * (dp - delta_BHT[row]) : 0.0F;
      add_rows(dk_sum, ds, queries, from, warp, D);
      add_rows(dv_sum, p, grads, from, warp, D);
    }
  }
  if (j >= s.tokens) return;
  store_row(row_of(dk, b, j, g), dk_sum, 1.0F, D);
  store_row(row_of(dv, b, j, g), dv_sum, 1.0F, D);
}

}  // namespace

template <class T>
void attention_grad(Stream stream, Heads<T> dq, Heads<T> dk, Heads<T> dv, Heads<const T> d_o,
                    Heads<const T> o, const float* lse_BHT, Heads<const T> q, Heads<const T> k,
                    Heads<const T> v, const AttentionDims& s, float* delta) {
  if (s.batch * s.heads * s.tokens == 0) return;
  const auto bytes = tile_bytes(2, 2, s.head_dim);
  const auto blocks = blocks_for(s.tokens, attention_warps);
  const dim3 by_query(blocks, static_cast<unsigned>(s.batch * s.heads));
  const dim3 by_key(blocks, static_cast<unsigned>(s.batch * s.kv_heads));
  const char* const name = "attention_grad";
  start(name, delta_rows<T>, by_query, attention_threads, 0, stream, delta, d_o, o, s);
  start(name, query_grad<T>, by_query, attention_threads, bytes, stream, dq, d_o, lse_BHT, delta, q,
        k, v, s);
  start(name, key_grad<T>, by_key, attention_threads, bytes, stream, dk, dv, d_o, lse_BHT, delta, q,
        k, v, s);
}

template void attention_grad(Stream, Heads<float>, Heads<float>, Heads<float>, Heads<const float>,
                             Heads<const float>, const float*, Heads<const float>,
                             Heads<const float>, Heads<const float>, const AttentionDims&, float*);
template void attention_grad(Stream, Heads<bf16>, Heads<bf16>, Heads<bf16>, Heads<const bf16>,
                             Heads<const bf16>, const float*, Heads<const bf16>, Heads<const bf16>,
                             Heads<const bf16>, const AttentionDims&, float*);

}  // namespace trireme::cuda
