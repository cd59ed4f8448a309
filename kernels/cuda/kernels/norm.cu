// Layer norm and RMS norm. With n = (x - mean) rstd and g = dy w:
//   dx = rstd (g - mean over c of g - n mean over c of (g n)),  dw = sum_t dy n,  db = sum_t dy
// The RMS norm uses the same formulas without the means of x and g.
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/norm_team.cuh"

namespace trireme::cuda {
namespace {

// Operands of the gradient. dx and onto may be null; dx = onto + the formula. If dx is null, the
// kernel computes the terms of dx anyway, from arbitrary values of w if w is absent.
template <class T>
struct NormGradRows {
  T* dx;
  const T *onto, *dy, *x, *w;
  const float *means, *rstds;
  std::int64_t rows, width;
  float each;  // 1 / width
};

template <class Team, int N, class T>
__global__ void __launch_bounds__(Team::block, Team::blocks) norm_rows(NormRows<T> a) {
  const auto r = first_row<Team>();
  if (r >= a.rows) return;  // true for whole teams
  const Places<Team, N> place(a.width);
  Pack<T, N> held[Places<Team, N>::packs];
  place.load(held, a.x + r * a.width);
  normalise<Team, N>(a, r, place, held);
}

// Number of thread blocks of the gradient. Each block processes every blocks-th group of rows and
// writes one row of partial sums. There are two blocks for each of Hopper's 132 multiprocessors, or
// four if there is enough work. With four blocks, GPUs with other numbers of multiprocessors wait
// less for the last block.
constexpr std::int64_t few_parts = 264, most_parts = 528, many_groups = 4096;
template <class Team>
std::int64_t parts_of(std::int64_t rows) {
  const auto groups = (rows + Team::rows - 1) / Team::rows;
  return groups >= many_groups ? most_parts : std::min(few_parts, groups);
}

// Calls f(Team{}) with the gradient's team for this width. For each float of a row, a thread needs
// two registers for sums. For each row at once it needs one and a half more, or three in f32.
template <class T, class F>
void with_grad_team(std::int64_t width, const F& f) {
  constexpr bool narrow = sizeof(T) == 2;
  constexpr int blocks = narrow ? 2 : 1, some = narrow ? 3 : 1, more = narrow ? 4 : 2;
  if (width <= 768) return f(Team<warp, 256, 24, blocks>{});
  if (width <= 1024) return f(Team<128, 128, 8, 4, more>{});
  if (width <= 2048) return f(Team<256, 256, 8, 2, some>{});
  if (width <= 4096) return f(Team<512, 512, 8, 1, some>{});
  f(Team<512, 512, 16, 1>{});
}

// The packs of a row that a thread holds. If elements are loaded one by one, `onto` is loaded
// later.
template <class Team, int N, class T>
struct HeldRow {
  static constexpr int packs = Places<Team, N>::packs;
  static constexpr bool waits = N == 1;
  Pack<T, N> x[packs], dy[packs], onto[waits ? 1 : packs];
  float mean, rstd;
};

template <class Team, int N, class T>
__device__ void store_gradient(const NormGradRows<T>& a, std::int64_t r,
                               const Places<Team, N>& place, const HeldRow<Team, N, T>& row,
                               float mean_g, float mean_gn) {
  constexpr bool waits = HeldRow<Team, N, T>::waits;
  const auto at = r * a.width + place.first();
  const T *const w = a.w + place.first(), *const onto = a.onto + at;
  T* const dx = a.dx + at;
#pragma unroll
  for (int i = 0; i < place.packs; ++i)
    if (place.has(i)) {
      const auto x = row.x[i].floats(), dy = row.dy[i].floats();
      const auto ws = load<N>(w + i * place.apart);
      Floats<N> out{};
      if constexpr (!waits)
        out = row.onto[i].floats();
      else if (a.onto != nullptr)
        out = load<N>(onto + i * place.apart);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float n = (x.v[k] - row.mean) * row.rstd;
        out.v[k] += row.rstd * (dy.v[k] * ws.v[k] - mean_g - n * mean_gn);
      }
      store<N>(dx + i * place.apart, out);
    }
}

// Adds the sums of a block's teams, one team after the other, in shared memory. The last team
// writes the result to `out`.
template <class Team, int N>
__device__ void store_sums(float* out, const Places<Team, N>& place,
                           Floats<N> (&sum)[Places<Team, N>::packs]) {
  alignas(16) __shared__ float of_block[Team::teams > 1 ? Team::row * Team::floats : 4];
  for (int team = 0; team < Team::teams; ++team) {
    if (static_cast<int>(threadIdx.x) / Team::row == team) {
#pragma unroll
      for (int i = 0; i < place.packs; ++i)
        if (place.has(i)) {
          if (team > 0) {
            const auto before = load<N>(of_block + place.at(i));
#pragma unroll
            for (int k = 0; k < N; ++k) sum[i].v[k] = before.v[k] + sum[i].v[k];
          }
          store<N>((team < Team::teams - 1 ? of_block : out) + place.at(i), sum[i]);
        }
    }
    if constexpr (Team::teams > 1) __syncthreads();
  }
}

// `partials` is [2, parts, width], dw first and then db. It is null if neither is needed.
template <class Team, int N, class T>
__global__ void __launch_bounds__(Team::block, Team::blocks)
    norm_rows_grad(NormGradRows<T> a, float* partials) {
  constexpr int packs = Places<Team, N>::packs, at_once = Team::at_once;
  const Places<Team, N> place(a.width);
  Floats<N> dw[packs]{}, db[packs]{};
  const auto step = static_cast<std::int64_t>(gridDim.x) * Team::rows;
  for (auto first = first_row<Team>(); first < a.rows; first += step) {
    HeldRow<Team, N, T> row[at_once];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      const auto r = first + j;
      const bool here = r < a.rows;
      row[j].mean = a.means != nullptr && here ? a.means[r] : 0.0F;
      row[j].rstd = here ? a.rstds[r] : 0.0F;
      place.load(row[j].x, a.x + r * a.width, here);
      place.load(row[j].dy, a.dy + r * a.width, here);
      if constexpr (!HeldRow<Team, N, T>::waits)
        place.load(row[j].onto, a.onto + r * a.width, here && a.onto != nullptr);
    }
    float sums[2 * at_once] = {};  // of g and of g n; 0 for rows beyond the last
#pragma unroll
    for (int j = 0; j < at_once; ++j)
#pragma unroll
      for (int i = 0; i < packs; ++i)
        if (place.has(i)) {
          const auto x = row[j].x[i].floats(), dy = row[j].dy[i].floats();
          const auto w = load<N>(a.w + place.at(i));
#pragma unroll
          for (int k = 0; k < N; ++k) {
            const float n = (x.v[k] - row[j].mean) * row[j].rstd, g = dy.v[k] * w.v[k];
            sums[2 * j] += g;
            sums[2 * j + 1] += g * n;
            dw[i].v[k] += dy.v[k] * n;
            db[i].v[k] += dy.v[k];
          }
        }
    if (a.dx == nullptr) continue;
    team_sums<Team>(sums);
#pragma unroll
    for (int j = 0; j < at_once; ++j)
      if (first + j < a.rows)
        store_gradient<Team, N>(a, first + j, place, row[j],
                                a.means == nullptr ? 0.0F : sums[2 * j] * a.each,
                                sums[2 * j + 1] * a.each);
  }
  if (partials == nullptr) return;
  float* const out = partials + blockIdx.x * a.width;
  store_sums<Team, N>(out, place, dw);
  store_sums<Team, N>(out + gridDim.x * a.width, place, db);
}

}  // namespace

void run(const kernel::Norm& o, const OnStream& on) {
  with_type(o.x_TC.dtype, [&]<class T>(T) {
    const auto a = rows_of<T>(o);
    if (a.rows == 0) return;
    const auto by = [&]<class Team, int N>(Team, std::integral_constant<int, N>) {
      start("norm", norm_rows<Team, N, T>, blocks_for(a.rows, Team::rows), Team::block, 0,
            on.stream, a);
    };
    constexpr std::integral_constant<int, pack_of<T>> packs;
    if (a.width % packs == 0 && aligned(a.y, a.x, a.w, a.b))
      with_norm_team<T>(a.width, [&](auto team) { by(team, packs); });
    else
      by(Alone{}, std::integral_constant<int, 1>{});
  });
}

void run(const kernel::NormGrad& o, const OnStream& on) {
  const auto rows = o.x_TC.extent[0], width = o.x_TC.extent[1];
  check_width(width);
  const auto floats = static_cast<std::size_t>(2 * std::min(rows, most_parts) * width);
  auto* const partials = scratch<float>(o, on, floats * sizeof(float));
  const bool sums = o.dw_C || o.db_C;
  std::int64_t parts = 0;
  with_type(o.x_TC.dtype, [&]<class T>(T) {
    const NormGradRows<T> a{.dx = at<T>(o.dx_TC),
                            .onto = at<T>(o.dsum_TC),
                            .dy = at<T>(o.dy_TC),
                            .x = at<T>(o.x_TC),
                            .w = at<T>(o.w_C ? o.w_C : o.x_TC),
                            .means = at<float>(o.mean_T),
                            .rstds = at<float>(o.rstd_T),
                            .rows = rows,
                            .width = width,
                            .each = 1.0F / static_cast<float>(width)};
    const auto by = [&]<class Team, int N>(Team, std::integral_constant<int, N>) {
      parts = parts_of<Team>(rows);
      if (parts > 0)
        start("norm_grad", norm_rows_grad<Team, N, T>, static_cast<unsigned>(parts), Team::block, 0,
              on.stream, a, sums ? partials : nullptr);
    };
    constexpr std::integral_constant<int, pack_of<T>> packs;
    if (width % packs == 0 && aligned(a.dx, a.onto, a.dy, a.x, a.w, partials))
      with_grad_team<T>(width, [&](auto team) { by(team, packs); });
    else
      by(Alone{}, std::integral_constant<int, 1>{});
  });
  if (sums)
    add_partials(on.stream, at<float>(o.dw_C), at<float>(o.db_C), o.how, partials, parts, width);
}

}  // namespace trireme::cuda
