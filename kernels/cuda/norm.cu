// Layer norm and RMS norm. With n = (x - mean) rstd and g = dy w:
//   dx = rstd (g - mean over c of g - n mean over c of (g n)),  dw = sum_t dy n,  db = sum_t dy
// and for the RMS norm without the means of x and g.
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm_team.cuh"

namespace trireme::cuda {
namespace {

template <class Team, int N, class T>
__global__ void __launch_bounds__(Team::block, Team::blocks) norm_rows(NormRows<T> a, const T* x) {
  const auto r = static_cast<std::int64_t>(blockIdx.x) * Team::rows + threadIdx.x / Team::row;
  if (r >= a.rows) return;  // a whole team
  const Places<Team, N> place{static_cast<int>(threadIdx.x) % Team::row, static_cast<int>(a.width)};
  Pack<T, N> held[Places<Team, N>::packs];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < place.packs; ++i)
    if (place.has(i)) {
      held[i] = Pack<T, N>::load(x + r * a.width + place.at(i));
      const auto f = held[i].floats();
#pragma unroll
      for (int k = 0; k < N; ++k) sum += f.v[k];
    }
  normalise<Team, N>(a, r, place, held, sum);
}

// Blocks of the gradient: each takes every blocks-th row group and leaves one row of partial sums.
constexpr std::int64_t most_parts = 256;
template <class Team>
std::int64_t parts_of(std::int64_t rows) {
  return std::min(most_parts, (rows + Team::rows - 1) / Team::rows);
}

// A processor has registers for two blocks, but where each element is loaded alone.
template <class Team, int N>
inline constexpr int grad_blocks = N > 1 && Team::block <= 256 ? 2 : Team::blocks;

// partials [2, parts, width]: of dw, then of db; null when nobody wants them.
template <class Team, int N, class T>
__global__ void __launch_bounds__(Team::block, grad_blocks<Team, N>)
    norm_rows_grad(T* dx, float* partials, const T* onto, const T* dy, const T* x, const T* w,
                   const float* means, const float* rstds, std::int64_t rows, std::int64_t width) {
  const Places<Team, N> place{static_cast<int>(threadIdx.x) % Team::row, static_cast<int>(width)};
  constexpr int packs = Places<Team, N>::packs;
  Floats<N> dw[packs]{}, db[packs]{};
  const auto step = static_cast<std::int64_t>(gridDim.x) * Team::rows;
  for (auto r = static_cast<std::int64_t>(blockIdx.x) * Team::rows + threadIdx.x / Team::row;
       r < rows; r += step) {
    const float mean = means == nullptr ? 0.0F : means[r], rstd = rstds[r];
    Pack<T, N> x_held[packs], dy_held[packs];
    float sum_g = 0, sum_gn = 0;
#pragma unroll
    for (int i = 0; i < packs; ++i)
      if (place.has(i)) {
        x_held[i] = Pack<T, N>::load(x + r * width + place.at(i));
        dy_held[i] = Pack<T, N>::load(dy + r * width + place.at(i));
        const auto xs = x_held[i].floats(), dys = dy_held[i].floats();
        const auto ws = load<N>(w + place.at(i));
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const float n = (xs.v[k] - mean) * rstd, g = dys.v[k] * ws.v[k];
          sum_g += g;
          sum_gn += g * n;
          dw[i].v[k] += dys.v[k] * n;
          db[i].v[k] += dys.v[k];
        }
      }
    if (dx == nullptr) continue;
    const float all = static_cast<float>(width);
    const float mean_g = means == nullptr ? 0.0F : team_sum<Team>(sum_g) / all;
    const float mean_gn = team_sum<Team>(sum_gn) / all;
#pragma unroll
    for (int i = 0; i < packs; ++i)
      if (place.has(i)) {
        const auto xs = x_held[i].floats(), dys = dy_held[i].floats();
        const auto ws = load<N>(w + place.at(i));
        Floats<N> out;
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const float n = (xs.v[k] - mean) * rstd;
          out.v[k] = rstd * (dys.v[k] * ws.v[k] - mean_g - n * mean_gn);
        }
        if (onto != nullptr) {
          const auto more = load<N>(onto + r * width + place.at(i));
#pragma unroll
          for (int k = 0; k < N; ++k) out.v[k] = more.v[k] + out.v[k];
        }
        store<N>(dx + r * width + place.at(i), out);
      }
  }
  if (partials == nullptr) return;
  float* const dw_out = partials + blockIdx.x * width;
  float* const db_out = dw_out + gridDim.x * width;
  // The teams of a block add one after the other.
  for (int team = 0; team < Team::rows; ++team) {
    if (static_cast<int>(threadIdx.x) / Team::row == team) {
#pragma unroll
      for (int i = 0; i < packs; ++i)
        if (place.has(i)) {
          if (team > 0) {
            const auto dw_sum = load<N>(dw_out + place.at(i)),
                       db_sum = load<N>(db_out + place.at(i));
#pragma unroll
            for (int k = 0; k < N; ++k) {
              dw[i].v[k] = dw_sum.v[k] + dw[i].v[k];
              db[i].v[k] = db_sum.v[k] + db[i].v[k];
            }
          }
          store<N>(dw_out + place.at(i), dw[i]);
          store<N>(db_out + place.at(i), db[i]);
        }
    }
    __syncthreads();
  }
}

}  // namespace

template <class T>
void norm(Stream stream, T* y, float* mean, float* rstd, const T* x, const T* w, const T* b,
          std::int64_t rows, std::int64_t width, float eps) {
  if (rows == 0) return;
  with_team(width, [&](auto team) {
    using Team = decltype(team);
    with_packs<pack_of<T>>(width % pack_of<T> == 0 && aligned(y, x, w, b), [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      start("norm", norm_rows<Team, N, T>, blocks_for(rows, Team::rows), Team::block, 0, stream,
            NormRows<T>{y, mean, rstd, w, b, rows, width, eps}, x);
    });
  });
}

std::size_t norm_scratch(std::int64_t rows, std::int64_t width) {
  return static_cast<std::size_t>(2 * std::min(rows, most_parts) * width) * sizeof(float);
}

template <class T>
void norm_grad(Stream stream, T* dx, float* dw, float* db, Into how, const T* onto, const T* dy,
               const T* x, const T* w, const float* mean, const float* rstd, std::int64_t rows,
               std::int64_t width, float* scratch) {
  const bool sums = dw != nullptr || db != nullptr;
  std::int64_t parts = 0;
  if (rows > 0)
    with_team(width, [&](auto team) {
      using Team = decltype(team);
      parts = parts_of<Team>(rows);
      const bool whole = width % pack_of<T> == 0 && aligned(dx, onto, dy, x, w, scratch);
      with_packs<pack_of<T>>(whole, [&](auto packs) {
        constexpr int N = decltype(packs)::value;
        start("norm_grad", norm_rows_grad<Team, N, T>, static_cast<unsigned>(parts), Team::block, 0,
              stream, dx, sums ? scratch : nullptr, onto, dy, x, w, mean, rstd, rows, width);
      });
    });
  if (dw != nullptr) add_partials(stream, dw, how, scratch, parts, width);
  if (db != nullptr) add_partials(stream, db, how, scratch + parts * width, parts, width);
}

template void norm(Stream, float*, float*, float*, const float*, const float*, const float*,
                   std::int64_t, std::int64_t, float);
template void norm(Stream, bf16*, float*, float*, const bf16*, const bf16*, const bf16*,
                   std::int64_t, std::int64_t, float);
template void norm_grad(Stream, float*, float*, float*, Into, const float*, const float*,
                        const float*, const float*, const float*, const float*, std::int64_t,
                        std::int64_t, float*);
template void norm_grad(Stream, bf16*, float*, float*, Into, const bf16*, const bf16*, const bf16*,
                        const bf16*, const float*, const float*, std::int64_t, std::int64_t,
                        float*);

}  // namespace trireme::cuda
