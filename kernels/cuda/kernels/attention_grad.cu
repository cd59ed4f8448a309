// Backward pass of attention without atomics. One kernel computes dq; each warp has one query row.
// The other kernel computes dk and dv; each warp has one key row and loops over all queries of all
// heads that read the key, in order. With p(t, s) = exp(scale q(t).k(s) - lse(t)) and delta(t) =
// do(t).o(t):
//   ds = scale p (do(t).v(s) - delta(t)), with a soft cap c of scores z also times 1 - (z / c)^2,
//   dq(t) = sum_s ds k(s),  dk(s) = sum_t ds q(t),
//   dv(s) = sum_t p do(t)
#include "kernels/cuda/kernels/attention_tile.cuh"
#include "kernels/math/exp.hpp"

namespace trireme::cuda {
namespace {

// Computes delta. Each row is processed by `lanes` lanes, a power of two, in packs of N elements.
// Rows are numbered in memory order: the heads of a token, then tokens.
template <int N, class T>
__global__ void __launch_bounds__(attention_threads, 2)
    delta_rows(float* delta_BHT, Heads<const T> d_o, Heads<const T> o, AttentionDims s, int lanes) {
  const auto thread = static_cast<std::int64_t>(blockIdx.x) * attention_threads + threadIdx.x;
  const auto row = thread / lanes, h = row % s.heads, token = row / s.heads;
  const auto t = token % s.tokens, b = token / s.tokens;
  float sum = 0;
  if (b < s.batch) {
    const T *const d_row = row_of(d_o, b, t, h), *const o_row = row_of(o, b, t, h);
    for (auto d = thread % lanes * N; d < s.head_dim; d += lanes * N) {
      const auto x = load<N>(d_row + d), y = load<N>(o_row + d);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += x.v[i] * y.v[i];
    }
  }
  for (int lane = lanes / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lane);
  if (b < s.batch && thread % lanes == 0) delta_BHT[(b * s.heads + h) * s.tokens + t] = sum;
}

template <class T>
void put_deltas(float* delta_BHT, const kernel::AttentionGrad& o, const AttentionDims& s,
                Stream stream) {
  const auto d_o = heads<T>(o.do_BTHD), out = heads<T>(o.o_BTHD);
  with_packs<pack_of<T>>(rows_in_packs({o.do_BTHD, o.o_BTHD}), [&](auto N) {
    int lanes = 1;
    while (lanes < warp && lanes * N.value < s.head_dim) lanes *= 2;
    const auto rows = s.batch * s.tokens * s.heads;
    start("attention_grad", delta_rows<N.value, T>, blocks_for(rows * lanes, attention_threads),
          attention_threads, 0, stream, delta_BHT, d_o, out, s, lanes);
  });
}

// Computes dq. Three blocks must fit on a multiprocessor. Without this bound, the compiler takes so
// many registers that only two fit.
template <Scores kind, class T, class S>
__global__ void __launch_bounds__(attention_threads, 3)
    query_grad(AttentionGradients<T, S> a, AttentionInputs<T> in) {
  float* const shared = block_memory();
  const auto& s = in.dims;
  const int D = static_cast<int>(s.head_dim), stride = tile_stride(D);
  float *const keys = shared, *const values = keys + warp * stride;
  float *const queries = values + warp * stride, *const grads = queries + attention_warps * stride;
  const auto first = static_cast<std::int64_t>(blockIdx.x) * attention_warps;
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads, g = h * s.kv_heads / s.heads;
  const auto last = min(first + attention_warps, s.tokens) - 1;
  const auto t = first + warp_of(), row = blockIdx.y * s.tokens + min(t, last);
  const float lse = number_of(a.lse, b, min(t, last), h), delta = a.delta_BHT[row];
  load_tile(queries, in.q, b, h, first, attention_warps, s.tokens, D);
  load_tile(grads, a.d_o, b, h, first, attention_warps, s.tokens, D);
  float sum[lane_dims]{};
  if (!begins_keys(a.piece)) load_row(sum, a.state + row * D, D);
  const auto seen = t <= last ? keys_of(in, b, t) : Range{0, 0};
  const auto end = keys_of(in, b, last).end;
  for (auto begin = first_tile(in, b, first); begin < end; begin += warp) {
    __syncthreads();  // all warps have read the previous tile
    load_tile(keys, in.k, b, g, begin, warp, s.keys, D);
    load_tile(values, in.v, b, g, begin, warp, s.keys, D);
    __syncthreads();
    const auto lanes = lanes_of(seen, begin);
    if (lanes.empty()) continue;
    const float score =
        score_of<kind>(dot(queries + warp_of() * stride, keys + lane_of() * stride, D), s);
    const float dp = dot(grads + warp_of() * stride, values + lane_of() * stride, D);
    const float slope = s.scale * score_slope<kind>(score, s);
    const float ds = lanes.has(lane_of()) ? slope * math::exp(score - lse) * (dp - delta) : 0.0F;
    add_rows(sum, ds, keys, lanes.from, lanes.end, D);
  }
  if (t > last) return;
  if (ends_keys(a.piece))
    store_row(row_of(a.dq, b, t, h), sum, 1.0F, D);
  else
    store_row(a.state + row * D, sum, 1.0F, D);
}

template <Scores kind, class T, class S>
__global__ void __launch_bounds__(attention_threads, 3)
    key_grad(AttentionGradients<T, S> a, AttentionInputs<T> in) {
  float* const shared = block_memory();
  const auto& s = in.dims;
  const int D = static_cast<int>(s.head_dim), stride = tile_stride(D);
  float *const queries = shared, *const grads = queries + warp * stride;
  float *const keys = grads + warp * stride, *const values = keys + attention_warps * stride;
  const auto first = static_cast<std::int64_t>(blockIdx.x) * attention_warps;
  const auto g = blockIdx.y % s.kv_heads, b = blockIdx.y / s.kv_heads;
  const auto last = min(first + attention_warps, s.keys) - 1;
  const auto j = first + warp_of(), own = j - s.ahead;  // the query at the key's position
  load_tile(keys, in.k, b, g, first, attention_warps, s.keys, D);
  load_tile(values, in.v, b, g, first, attention_warps, s.keys, D);
  float dk_sum[lane_dims]{}, dv_sum[lane_dims]{};
  if (a.how == Accumulate::add && j <= last) {
    load_row(dk_sum, row_of(a.dk, b, j, g), D);
    load_row(dv_sum, row_of(a.dv, b, j, g), D);
  }
  const Range seen_by{own, j <= last ? min(own + s.window, s.tokens) : own};
  const auto start = max(first - s.ahead, std::int64_t{0}) / warp * warp;
  const auto end = min(last - s.ahead + s.window, s.tokens);
  for (std::int64_t h = 0; h < s.heads; ++h) {
    if (h * s.kv_heads / s.heads != g) continue;
    for (auto begin = start; begin < end && in.start(b, begin) <= last; begin += warp) {
      __syncthreads();  // all warps have read the previous tile
      load_tile(queries, in.q, b, h, begin, warp, s.tokens, D);
      load_tile(grads, a.d_o, b, h, begin, warp, s.tokens, D);
      __syncthreads();
      auto lanes = lanes_of(seen_by, begin);
      const auto t = min(begin + lane_of(), s.tokens - 1);
      const float score =
          score_of<kind>(dot(keys + warp_of() * stride, queries + lane_of() * stride, D), s);
      const float dp = dot(values + warp_of() * stride, grads + lane_of() * stride, D);
      const bool sees = lanes.has(lane_of()) && in.start(b, t) <= j;
      lanes.end = lanes.from + warp_sum(static_cast<int>(sees));  // later documents follow
      const float p = sees ? math::exp(score - number_of(a.lse, b, t, h)) : 0.0F;
      const float delta = a.delta_BHT[(b * s.heads + h) * s.tokens + t];
      const float ds = sees ? s.scale * score_slope<kind>(score, s) * p * (dp - delta) : 0.0F;
      add_rows(dk_sum, ds, queries, lanes.from, lanes.end, D);
      add_rows(dv_sum, p, grads, lanes.from, lanes.end, D);
    }
  }
  if (j > last) return;
  store_row(row_of(a.dk, b, j, g), dk_sum, 1.0F, D);
  store_row(row_of(a.dv, b, j, g), dv_sum, 1.0F, D);
}

template <class T, class S>
void attend_as(const kernel::AttentionGrad& o, Stream stream) {
  const auto in = inputs_of<T>(o);
  const auto& s = in.dims;
  const auto bytes = tile_bytes(2, 2, s.head_dim);
  const auto blocks = blocks_for(s.tokens, attention_warps);
  const dim3 by_query(blocks, blocks_for(s.batch * s.heads, 1, most_along_y));
  const dim3 by_key(blocks_for(s.keys, attention_warps),
                    blocks_for(s.batch * s.kv_heads, 1, most_along_y));
  const char* const name = "attention_grad";
  const auto a = gradients_of<T, S>(o);
  put_deltas<T>(a.delta_BHT, o, s, stream);
  if (attend_with_mma(o, stream)) return;
  with_scores(s, [&](auto kind) {
    start(name, query_grad<kind.value, T, S>, by_query, attention_threads, bytes, stream, a, in);
    start(name, key_grad<kind.value, T, S>, by_key, attention_threads, bytes, stream, a, in);
  });
}

}  // namespace

void attend(const kernel::AttentionGrad& o, Stream stream) {
  if (o.shape.batch * o.shape.heads * o.shape.tokens == 0) return;
  with_type(o.o_BTHD.dtype, [&]<class T>(T) {
    if (o.dk_BTGD.dtype == dtype_of<T>)
      attend_as<T, T>(o, stream);
    else
      attend_as<T, float>(o, stream);
  });
}

}  // namespace trireme::cuda
