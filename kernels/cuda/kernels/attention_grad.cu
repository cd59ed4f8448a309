// Attention's gradient without atomics: one kernel for dq, a query row a warp, and one for dk and
// dv, a key row a warp that meets all queries of all heads that read it, in order. With
// p(t, s) = exp(scale q(t).k(s) - lse(t)) and delta(t) = do(t).o(t):
//   ds = scale p (do(t).v(s) - delta(t)),  dq(t) = sum_s ds k(s),  dk(s) = sum_t ds q(t),
//   dv(s) = sum_t p do(t)
#include "kernels/cuda/kernels/attention_tile.cuh"
#include "kernels/math/exp.hpp"

namespace trireme::cuda {
namespace {

template <class T>
struct AttentionGradients {
  Heads<T> dq, dk, dv;
  Heads<const T> d_o, o;
  const float* lse_BHT;
  float* delta_BHT;  // scratch
};

template <class T>
__global__ void __launch_bounds__(attention_threads, 2)
    delta_rows(AttentionGradients<T> a, AttentionDims s) {
  const auto t = static_cast<std::int64_t>(blockIdx.x) * attention_warps + warp_of();
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads;
  if (t >= s.tokens) return;
  const T *const d_row = row_of(a.d_o, b, t, h), *const row = row_of(a.o, b, t, h);
  float sum = 0;
  for (int d = lane_of(); d < s.head_dim; d += warp) sum += widen(d_row[d]) * widen(row[d]);
  sum = warp_sum(sum);
  if (lane_of() == 0) a.delta_BHT[blockIdx.y * s.tokens + t] = sum;
}

// Three blocks on a processor: the compiler otherwise takes registers for two.
template <class T>
__global__ void __launch_bounds__(attention_threads, 3)
    query_grad(AttentionGradients<T> a, AttentionInputs<T> in) {
  float* const shared = block_memory();
  const auto& s = in.dims;
  const int D = static_cast<int>(s.head_dim), stride = tile_stride(D);
  float *const keys = shared, *const values = keys + warp * stride;
  float *const queries = values + warp * stride, *const grads = queries + attention_warps * stride;
  const auto first = static_cast<std::int64_t>(blockIdx.x) * attention_warps;
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads, g = h * s.kv_heads / s.heads;
  const auto t = first + warp_of(), row = blockIdx.y * s.tokens + min(t, s.tokens - 1);
  const float lse = a.lse_BHT[row], delta = a.delta_BHT[row];
  load_tile(queries, in.q, b, h, first, attention_warps, s.tokens, D);
  load_tile(grads, a.d_o, b, h, first, attention_warps, s.tokens, D);
  float sum[lane_dims]{};
  const auto end = min(s.tokens, first + attention_warps);
  for (auto begin = first_tile(s, first); begin < end; begin += warp) {
    __syncthreads();  // all have read the last tile
    load_tile(keys, in.k, b, g, begin, warp, s.tokens, D);
    load_tile(values, in.v, b, g, begin, warp, s.tokens, D);
    __syncthreads();
    const auto keys_of = keys_seen(s, t, begin);
    if (keys_of.from >= keys_of.end) continue;
    const float score = dot(queries + warp_of() * stride, keys + lane_of() * stride, D) * s.scale;
    const float dp = dot(grads + warp_of() * stride, values + lane_of() * stride, D);
    const float ds = keys_of.lane() ? s.scale * math::exp(score - lse) * (dp - delta) : 0.0F;
    add_rows(sum, ds, keys, keys_of.from, keys_of.end, D);
  }
  if (t < s.tokens) store_row(row_of(a.dq, b, t, h), sum, 1.0F, D);
}

template <class T>
__global__ void __launch_bounds__(attention_threads, 2)
    key_grad(AttentionGradients<T> a, AttentionInputs<T> in) {
  float* const shared = block_memory();
  const auto& s = in.dims;
  const int D = static_cast<int>(s.head_dim), stride = tile_stride(D);
  float *const queries = shared, *const grads = queries + warp * stride;
  float *const keys = grads + warp * stride, *const values = keys + attention_warps * stride;
  const auto first = static_cast<std::int64_t>(blockIdx.x) * attention_warps;
  const auto g = blockIdx.y % s.kv_heads, b = blockIdx.y / s.kv_heads;
  const auto j = first + warp_of();
  load_tile(keys, in.k, b, g, first, attention_warps, s.tokens, D);
  load_tile(values, in.v, b, g, first, attention_warps, s.tokens, D);
  float dk_sum[lane_dims]{}, dv_sum[lane_dims]{};
  for (std::int64_t h = 0; h < s.heads; ++h) {
    if (h * s.kv_heads / s.heads != g) continue;
    const auto last = min(s.tokens, first + attention_warps - 1 + s.window);
    for (std::int64_t begin = first / warp * warp; begin < last; begin += warp) {
      __syncthreads();  // all have read the last tile
      load_tile(queries, in.q, b, h, begin, warp, s.tokens, D);
      load_tile(grads, a.d_o, b, h, begin, warp, s.tokens, D);
      __syncthreads();
      const auto t = begin + lane_of(), row = (b * s.heads + h) * s.tokens + min(t, s.tokens - 1);
      const float score = dot(keys + warp_of() * stride, queries + lane_of() * stride, D) * s.scale;
      const float dp = dot(values + warp_of() * stride, grads + lane_of() * stride, D);
      const int from = static_cast<int>(min(max(j - begin, std::int64_t{0}), std::int64_t{warp}));
      const int end =
          static_cast<int>(min(max(j + s.window - begin, std::int64_t{0}), std::int64_t{warp}));
      const bool seen = from <= lane_of() && lane_of() < end && t < s.tokens;
      const float p = seen ? math::exp(score - a.lse_BHT[row]) : 0.0F;
      const float ds = seen ? s.scale * p * (dp - a.delta_BHT[row]) : 0.0F;
      add_rows(dk_sum, ds, queries, from, end, D);
      add_rows(dv_sum, p, grads, from, end, D);
    }
  }
  if (j >= s.tokens) return;
  store_row(row_of(a.dk, b, j, g), dk_sum, 1.0F, D);
  store_row(row_of(a.dv, b, j, g), dv_sum, 1.0F, D);
}

}  // namespace

void attend(const kernel::AttentionGrad& o, Stream stream) {
  const auto s = dims_of(o.shape);
  if (s.batch * s.heads * s.tokens == 0) return;
  const auto bytes = tile_bytes(2, 2, s.head_dim);
  const auto blocks = blocks_for(s.tokens, attention_warps);
  const dim3 by_query(blocks, blocks_for(s.batch * s.heads, 1, most_along_y));
  const dim3 by_key(blocks, blocks_for(s.batch * s.kv_heads, 1, most_along_y));
  const char* const name = "attention_grad";
  with_type(o.o_BTHD.dtype, [&]<class T>(T) {
    const auto in = inputs_of<T>(o);
    const AttentionGradients<T> a{.dq = heads<T>(o.dq_BTHD),
                                  .dk = heads<T>(o.dk_BTGD),
                                  .dv = heads<T>(o.dv_BTGD),
                                  .d_o = heads<T>(o.do_BTHD),
                                  .o = heads<T>(o.o_BTHD),
                                  .lse_BHT = at<float>(o.lse_BHT),
                                  .delta_BHT = reinterpret_cast<float*>(o.workspace.data)};
    start(name, delta_rows<T>, by_query, attention_threads, 0, stream, a, s);
    start(name, query_grad<T>, by_query, attention_threads, bytes, stream, a, in);
    start(name, key_grad<T>, by_key, attention_threads, bytes, stream, a, in);
  });
}

}  // namespace trireme::cuda
