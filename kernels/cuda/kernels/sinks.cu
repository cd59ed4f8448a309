// Attention sinks, added to results that were computed without them. With lse of the keys alone:
//   lse' = log(exp(lse) + exp(sink)),  o' = o exp(lse - lse')
// The backward pass is dsink = - sum of exp(sink - lse') do.o'. Parts of the rows are summed first,
// and then added in order.
#include "kernels/cuda/kernels/attention_tile.cuh"
#include "kernels/math/exp.hpp"
#include "kernels/math/log.hpp"

namespace trireme::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(attention_threads)
    join_rows(Heads<T> o, RowNumbers<float> lse_BHT, const T* sink_H, AttentionDims s) {
  const auto t = static_cast<std::int64_t>(blockIdx.x) * attention_warps + warp_of();
  const auto h = blockIdx.y % s.heads, b = blockIdx.y / s.heads;
  if (t >= s.tokens) return;
  float* const at = &number_of(lse_BHT, b, t, h);
  const float lse = *at, sink = widen(sink_H[h]), most = fmaxf(lse, sink);
  const float both = most + math::log(math::exp(lse - most) + math::exp(sink - most));
  const float share = math::exp(lse - both);
  T* const row = row_of(o, b, t, h);
  for (int d = lane_of(); d < s.head_dim; d += warp) row[d] = rounded<T>(widen(row[d]) * share);
  __syncwarp();  // all lanes have read lse
  if (lane_of() == 0) *at = both;
}

constexpr std::int64_t part_rows = 512;

// Sums parts of the rows of all samples. The grid's y counts heads.
template <class T>
__global__ void __launch_bounds__(attention_threads)
    sink_parts(float* part_PH, Heads<const T> d_o, Heads<const T> o,
               RowNumbers<const float> lse_BHT, const T* sink_H, AttentionDims s) {
  __shared__ float of_warp[attention_warps];
  const auto h = blockIdx.y;
  const float sink = widen(sink_H[h]);
  const auto begin = static_cast<std::int64_t>(blockIdx.x) * part_rows;
  const auto end = min(begin + part_rows, s.batch * s.tokens);
  float sum = 0;
  for (auto r = begin + warp_of(); r < end; r += attention_warps) {
    const auto b = r / s.tokens, t = r % s.tokens;
    const T *const d_row = row_of(d_o, b, t, h), *const row = row_of(o, b, t, h);
    float delta = 0;
    for (int d = lane_of(); d < s.head_dim; d += warp) delta += widen(d_row[d]) * widen(row[d]);
    sum -= math::exp(sink - number_of(lse_BHT, b, t, h)) * warp_sum(delta);
  }
  if (lane_of() == 0) of_warp[warp_of()] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float all = 0;
  for (const float x : of_warp) all += x;
  part_PH[blockIdx.x * s.heads + h] = all;
}

}  // namespace

void join_sinks(const kernel::Attention& o, Stream stream) {
  const auto s = dims_of(o.shape);
  if (s.batch * s.heads * s.tokens == 0) return;
  const dim3 grid(blocks_for(s.tokens, attention_warps),
                  blocks_for(s.batch * s.heads, 1, most_along_y));
  with_type(o.o_BTHD.dtype, [&]<class T>(T) {
    start("attention", join_rows<T>, grid, attention_threads, 0, stream, heads<T>(o.o_BTHD),
          row_numbers(o.lse_BHT), at<T>(o.sink_H), s);
  });
}

void run(const kernel::SinkGrad& o, const OnStream& on) {
  const auto& lse = o.lse_BHT;
  const auto s =
      dims_of({lse.extent[0], lse.extent[2], lse.extent[1], lse.extent[1], o.o_BTHD.extent[3], 1});
  const std::int64_t parts = blocks_for(s.batch * s.tokens, part_rows);
  auto* const partials =
      scratch<float>(o, on, static_cast<std::size_t>(parts * s.heads) * sizeof(float));
  const dim3 grid(static_cast<unsigned>(parts), blocks_for(s.heads, 1, most_along_y));
  with_type(o.o_BTHD.dtype, [&]<class T>(T) {
    start(o.name.data(), sink_parts<T>, grid, attention_threads, 0, on.stream, partials,
          heads<T>(o.do_BTHD), heads<T>(o.o_BTHD), row_numbers(lse), at<T>(o.sink_H), s);
  });
  add_partials(on.stream, at<float>(o.dsink_H), nullptr, o.how, partials, parts, s.heads);
}

}  // namespace trireme::cuda
