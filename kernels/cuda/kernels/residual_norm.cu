// The residual sum and its norm in one pass over the row.
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/mask.cuh"
#include "kernels/cuda/kernels/norm_team.cuh"

namespace trireme::cuda {
namespace {

template <class Team, int N, class T>
__global__ void __launch_bounds__(Team::block, Team::blocks)
    residual_norm_rows(NormRows<T> a, T* sums, const T* x, const T* skip, Mask mask) {
  const auto r = first_row<Team>();
  if (r >= a.rows) return;  // true for whole teams
  const Places<Team, N> place(a.width);
  Pack<T, N> held[Places<Team, N>::packs], more[Places<Team, N>::packs];
  place.load(held, x + r * a.width);
  place.load(more, skip + r * a.width);
  const auto drop = mask.row(r);
  T* const sum = sums + r * a.width + place.first();
#pragma unroll
  for (int i = 0; i < place.packs; ++i)
    if (place.has(i)) {
      auto v = held[i].floats();
      drop(v, place.at(i));
      const auto s = more[i].floats();
#pragma unroll
      for (int k = 0; k < N; ++k) v.v[k] = s.v[k] + v.v[k];
      held[i] = Pack<T, N>::of(v);
      held[i].store(sum + i * place.apart);
    }
  normalise<Team, N>(a, r, place, held);  // of the rounded sum, as it is stored
}

}  // namespace

void run(const kernel::ResidualNorm& o, const OnStream& on) {
  if (!o.skip_BTC) return o.in_steps(o, [&](const auto& step) { run(step, on); });
  kernel::Dropout dropout;
  kernel::Norm norm;
  o.in_steps(o, [&]<class Step>(const Step& step) {
    if constexpr (std::is_same_v<Step, kernel::Norm>)
      norm = step;
    else
      dropout = step;
  });
  with_type(o.x_BTC.dtype, [&]<class T>(T) {
    const auto sum = dropped_of<T>(dropout);
    const auto a = rows_of<T>(norm);
    if (a.rows == 0) return;
    const auto by = [&]<class Team, int N>(Team, std::integral_constant<int, N>) {
      start("residual_norm", residual_norm_rows<Team, N, T>, blocks_for(a.rows, Team::rows),
            Team::block, 0, on.stream, a, sum.y, sum.x, sum.skip, Mask(sum.key, sum.rows));
    };
    constexpr std::integral_constant<int, pack_of<T>> packs;
    if (a.width % packs == 0 && aligned(sum.y, a.y, sum.x, sum.skip, a.w, a.b))
      with_norm_team<T>(a.width, [&](auto team) { by(team, packs); });
    else
      by(Alone{}, std::integral_constant<int, 1>{});
  });
}

}  // namespace trireme::cuda
