#pragma once
// Who norms a row: a team of threads that keeps it in registers, a warp up to 768 wide, a block up
// to 8,192.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/math/rsqrt.hpp"

namespace trireme::cuda {

// Threads of a row, of a block, the most floats of a row that a thread holds, and the blocks that
// must fit on a processor at once: the compiler otherwise spills for more.
template <int Row, int Block, int Floats, int Blocks>
struct Team {
  static constexpr int row = Row, block = Block, floats = Floats, blocks = Blocks;
  static constexpr int rows = Block / Row;  // of a block
};
using Narrow = Team<warp, 256, 24, 1>;
using Medium = Team<256, 256, 16, 2>;
using Broad = Team<512, 512, 16, 1>;

template <class F>
void with_team(std::int64_t width, const F& f) {
  if (width <= 768)
    f(Narrow{});
  else if (width <= 4096)
    f(Medium{});
  else
    f(Broad{});
}

template <class Team>
__device__ float team_sum(float x) {
  if constexpr (Team::row == warp)
    return warp_sum(x);
  else
    return block_sum<Team::row>(x);
}

// Where thread `lane` of a team finds its packs: lane, lane + row, ... of width / N.
template <class Team, int N>
struct Places {
  static constexpr int packs = Team::floats / N;
  int lane, width;
  __device__ int at(int i) const { return (i * Team::row + lane) * N; }
  __device__ bool has(int i) const { return at(i) < width; }
};

// The operands of a norm. means null: the RMS norm; b may be null.
template <class T>
struct NormRows {
  T* y;
  float *means, *rstds;
  const T *w, *b;
  std::int64_t rows, width;
  float eps;
};

// Row r, of which each thread holds its packs; `sum` is the sum of what this one holds.
template <class Team, int N, class T>
__device__ void normalise(const NormRows<T>& a, std::int64_t r, const Places<Team, N>& place,
                          const Pack<T, N> (&held)[Places<Team, N>::packs], float sum) {
  const auto width = static_cast<float>(a.width);
  const float mean = a.means == nullptr ? 0.0F : team_sum<Team>(sum) / width;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < place.packs; ++i)
    if (place.has(i)) {
      const auto f = held[i].floats();
#pragma unroll
      for (int k = 0; k < N; ++k) squares += (f.v[k] - mean) * (f.v[k] - mean);
    }
  const float rstd = math::rsqrt(team_sum<Team>(squares) / width + a.eps);
#pragma unroll
  for (int i = 0; i < place.packs; ++i)
    if (place.has(i)) {
      auto f = held[i].floats();
      const auto scale = load<N>(a.w + place.at(i));
#pragma unroll
      for (int k = 0; k < N; ++k) f.v[k] = (f.v[k] - mean) * rstd * scale.v[k];
      if (a.b != nullptr) {
        const auto shift = load<N>(a.b + place.at(i));
#pragma unroll
        for (int k = 0; k < N; ++k) f.v[k] += shift.v[k];
      }
      store<N>(a.y + r * a.width + place.at(i), f);
    }
  if (place.lane == 0) {
    if (a.means != nullptr) a.means[r] = mean;
    a.rstds[r] = rstd;
  }
}

}  // namespace trireme::cuda
