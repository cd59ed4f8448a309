// The residual sum and its norm in one pass over the row.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mask.cuh"
#include "kernels/cuda/norm_team.cuh"

namespace trireme::cuda {
namespace {

template <class Team, int N, class T>
__global__ void __launch_bounds__(Team::block, Team::blocks)
    residual_norm_rows(NormRows<T> a, T* sums, const T* x, const T* skip, Mask mask) {
  const auto r = static_cast<std::int64_t>(blockIdx.x) * Team::rows + threadIdx.x / Team::row;
  if (r >= a.rows) return;  // a whole team
  const Places<Team, N> place{static_cast<int>(threadIdx.x) % Team::row, static_cast<int>(a.width)};
  Pack<T, N> held[Places<Team, N>::packs];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < place.packs; ++i)
    if (place.has(i)) {
      const auto at = r * a.width + place.at(i);
      auto v = load<N>(x + at);
      mask(v, r, place.at(i));
      const auto s = load<N>(skip + at);
#pragma unroll
      for (int k = 0; k < N; ++k) held[i].v[k] = rounded<T>(s.v[k] + v.v[k]);
      held[i].store(sums + at);
      const auto f = held[i].floats();  // the norm is of what was stored
#pragma unroll
      for (int k = 0; k < N; ++k) sum += f.v[k];
    }
  normalise<Team, N>(a, r, place, held, sum);
}

}  // namespace

template <class T>
void residual_norm(Stream stream, T* sum, T* y, float* mean, float* rstd, const T* x, const T* skip,
                   const T* w, const T* b, float eps, const DropoutKey& key,
                   const DropoutRows& shape) {
  const auto rows = shape.samples * shape.tokens, width = shape.width;
  if (rows == 0) return;
  const bool whole = width % pack_of<T> == 0 && aligned(sum, y, x, skip, w, b);
  with_team(width, [&](auto team) {
    using Team = decltype(team);
    with_packs<pack_of<T>>(whole, [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      start("residual_norm", residual_norm_rows<Team, N, T>, blocks_for(rows, Team::rows),
            Team::block, 0, stream, NormRows<T>{y, mean, rstd, w, b, rows, width, eps}, sum, x,
            skip, Mask(key, shape));
    });
  });
}

template void residual_norm(Stream, float*, float*, float*, float*, const float*, const float*,
                            const float*, const float*, float, const DropoutKey&,
                            const DropoutRows&);
template void residual_norm(Stream, bf16*, bf16*, float*, float*, const bf16*, const bf16*,
                            const bf16*, const bf16*, float, const DropoutKey&, const DropoutRows&);

}  // namespace trireme::cuda
