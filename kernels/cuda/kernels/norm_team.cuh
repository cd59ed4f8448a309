#pragma once
// Row normalization by a team of threads. A team is a warp or a thread block and holds the row in
// registers.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/math/rsqrt.hpp"

namespace trireme::cuda {

// Arguments of a norm kernel. If `means` is null, the kernel computes the RMS norm. `b` may be
// null.
template <class T>
struct NormRows {
  T* y;
  float *means, *rstds;
  const T *x, *w, *b;
  std::int64_t rows, width;
  float each, eps;  // each = 1 / width
};
template <class T>
NormRows<T> rows_of(const kernel::Norm& o) {
  const auto rows = o.x_TC.extent[0], width = o.x_TC.extent[1];
  check_width(width);
  return {.y = at<T>(o.y_TC),
          .means = at<float>(o.mean_T),
          .rstds = at<float>(o.rstd_T),
          .x = at<T>(o.x_TC),
          .w = at<T>(o.w_C),
          .b = at<T>(o.b_C),
          .rows = rows,
          .width = width,
          .each = 1.0F / static_cast<float>(width),
          .eps = static_cast<float>(o.eps)};
}

// A team of `Row` threads that normalizes rows. A thread block has `Block` threads. A thread holds
// at most `Floats` floats of a row. `Blocks` thread blocks must fit on a multiprocessor at once.
// Without this bound, the compiler assumes more blocks and spills registers. A team loads `AtOnce`
// rows together to keep more loads in flight.
template <int Row, int Block, int Floats, int Blocks, int AtOnce = 1>
struct Team {
  static constexpr int row = Row, block = Block, floats = Floats, blocks = Blocks, at_once = AtOnce;
  static constexpr int teams = Block / Row;  // teams in a block
  static constexpr int rows = teams * AtOnce;
};
// Team for rows that are loaded one element at a time.
using Alone = Team<512, 512, 16, 1>;

template <class Team, int M>
__device__ void team_sums(float (&x)[M]) {
  if constexpr (Team::row == warp)
    warp_sums(x);
  else
    block_sums<Team::row>(x);
}
template <class Team>
__device__ float team_sum(float x) {
  float one[1] = {x};
  team_sums<Team>(one);
  return one[0];
}

// Packs that thread `lane` of a team holds. A row has width / N packs. The thread holds packs lane,
// lane + row, lane + 2 row and so on, where `row` is the number of threads in the team.
template <class Team, int N>
struct Places {
  static constexpr int packs = Team::floats / N;
  int lane, width;

  __device__ explicit Places(std::int64_t w)
      : lane(static_cast<int>(threadIdx.x) % Team::row), width(static_cast<int>(w)) {}
  static constexpr int apart = Team::row * N;  // distance from one pack to the next
  __device__ int first() const { return lane * N; }
  __device__ int at(int i) const { return first() + i * apart; }
  __device__ bool has(int i) const { return at(i) < width; }
  // Loads all packs of a row before any pack is used. Packs beyond the end of the row become zeros,
  // and all packs become zeros if `there` is false.
  template <class T>
  __device__ void load(Pack<T, N> (&held)[packs], const T* row, bool there = true) const {
    const T* const p = row + first();
#pragma unroll
    for (int i = 0; i < packs; ++i)
      held[i] = there && has(i) ? Pack<T, N>::load(p + i * apart) : Pack<T, N>{};
  }
};

// Returns the first row that this thread's team normalizes.
template <class Team>
__device__ std::int64_t first_row() {
  return static_cast<std::int64_t>(blockIdx.x) * Team::rows +
         static_cast<int>(threadIdx.x) / Team::row * Team::at_once;
}

// Calls f(Team{}) with the team for rows of this width. Each thread of the team needs at most about
// 64 registers for data.
template <class T, class F>
void with_norm_team(std::int64_t width, const F& f) {
  constexpr bool narrow = sizeof(T) == 2;
  if (width <= 768) return f(Team<warp, 256, 24, 2>{});
  if constexpr (narrow) {
    if (width <= 1024) return f(Team<warp, 256, 32, 2>{});
    if (width <= 2048) return f(Team<warp, 128, 64, 3>{});
  }
  if (width <= 4096) return f(Team<128, 128, 32, 4>{});
  f(Team<256, 256, 32, 2>{});
}

// Normalizes row r, whose packs are in the registers of the team's threads, and writes the results.
template <class Team, int N, class T>
__device__ void normalise(const NormRows<T>& a, std::int64_t r, const Places<Team, N>& place,
                          const Pack<T, N> (&held)[Places<Team, N>::packs]) {
  float mean = 0;
  if (a.means != nullptr) {
#pragma unroll
    for (int i = 0; i < place.packs; ++i) {  // packs beyond the row are 0
      const auto f = held[i].floats();
#pragma unroll
      for (int k = 0; k < N; ++k) mean += f.v[k];
    }
    mean = team_sum<Team>(mean) * a.each;
  }
  float squares = 0;
#pragma unroll
  for (int i = 0; i < place.packs; ++i)
    if (place.has(i)) {
      const auto f = held[i].floats();
#pragma unroll
      for (int k = 0; k < N; ++k) squares += (f.v[k] - mean) * (f.v[k] - mean);
    }
  const float rstd = math::rsqrt(team_sum<Team>(squares) * a.each + a.eps);
  T* const y = a.y + r * a.width + place.first();
  const T *const w = a.w + place.first(), *const b = a.b + place.first();
#pragma unroll
  for (int i = 0; i < place.packs; ++i)
    if (place.has(i)) {
      auto f = held[i].floats();
      const auto scale = load<N>(w + i * place.apart);
#pragma unroll
      for (int k = 0; k < N; ++k) f.v[k] = (f.v[k] - mean) * rstd * scale.v[k];
      if (a.b != nullptr) {
        const auto shift = load<N>(b + i * place.apart);
#pragma unroll
        for (int k = 0; k < N; ++k) f.v[k] += shift.v[k];
      }
      store<N>(y + i * place.apart, f);
    }
  if (place.lane == 0) {
    if (a.means != nullptr) a.means[r] = mean;
    a.rstds[r] = rstd;
  }
}

}  // namespace trireme::cuda
