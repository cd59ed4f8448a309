// Attention of one query row a warp, keys and values in tiles, softmax as it goes (Milakov,
// Gimelshein 2018; Dao et al. 2022). Never stores a row of probabilities.
#include "kernels/cuda/kernels/attention_tile.cuh"
#include "kernels/math/exp.hpp"
#include "kernels/math/log.hpp"

namespace trireme::cuda {
namespace {

constexpr float lowest = -3.402823466e38F;

template <class T>
__global__ void __launch_bounds__(attention_threads, 2)
    attention_rows(Heads<T> o, float* lse_BHT, AttentionInputs<T> a) {
  float* const shared = block_memory();
  const auto& s = a.dims;
  const int D = static_cast<int>(s.head_dim), stride = tile_stride(D);
  float *const keys = shared, *const values = keys + warp * stride;
  float* const queries = values + warp * stride;
  const auto first = static_cast<std::int64_t>(blockIdx.x) * attention_warps;
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads, g = h * s.kv_heads / s.heads;
  const auto t = first + warp_of();
  load_tile(queries, a.q, b, h, first, attention_warps, s.tokens, D);
  float most = lowest, total = 0, sum[lane_dims]{};
  const auto end = min(s.tokens, first + attention_warps);
  for (auto begin = first_tile(s, first); begin < end; begin += warp) {
    __syncthreads();  // all have read the last tile
    load_tile(keys, a.k, b, g, begin, warp, s.tokens, D);
    load_tile(values, a.v, b, g, begin, warp, s.tokens, D);
    __syncthreads();
    const auto keys_of = keys_seen(s, t, begin);
    if (keys_of.from >= keys_of.end) continue;
    const bool seen = keys_of.lane();
    const float score = dot(queries + warp_of() * stride, keys + lane_of() * stride, D) * s.scale;
    const float larger = fmaxf(most, warp_max(seen ? score : lowest));
    const float shrink = math::exp(most - larger);
    const float p = seen ? math::exp(score - larger) : 0.0F;
    most = larger;
    total = total * shrink + warp_sum(p);
#pragma unroll
    for (float& x : sum) x *= shrink;
    add_rows(sum, p, values, keys_of.from, keys_of.end, D);
  }
  if (t >= s.tokens) return;
  store_row(row_of(o, b, t, h), sum, 1.0F / total, D);
  if (lane_of() == 0) lse_BHT[blockIdx.y * s.tokens + t] = most + math::log(total);
}

}  // namespace

void attend(const kernel::Attention& o, Stream stream) {
  const auto s = dims_of(o.shape);
  if (s.batch * s.heads * s.tokens == 0) return;
  const auto bytes = tile_bytes(2, 1, s.head_dim);
  const dim3 grid(blocks_for(s.tokens, attention_warps),
                  blocks_for(s.batch * s.heads, 1, most_along_y));
  with_type(o.o_BTHD.dtype, [&]<class T>(T) {
    start("attention", attention_rows<T>, grid, attention_threads, bytes, stream,
          heads<T>(o.o_BTHD), at<float>(o.lse_BHT), inputs_of<T>(o));
  });
}

}  // namespace trireme::cuda
