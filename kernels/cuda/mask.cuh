#pragma once
// Dropout's mask of a pack of neighbouring channels. One random number serves four of them.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/math/dropout.hpp"

namespace trireme::cuda {

struct Mask {
  std::uint64_t key;
  math::Dropout drop;
  bool all;  // is everything kept?
  DropoutRows rows;

  Mask(const DropoutKey& k, const DropoutRows& r) : key(k.key), drop(k.p), all(k.p == 0), rows(r) {}

  // Of channels [channel, channel + N) of a row; N is 1 or divides by 4, as channel then does.
  template <int N>
  __device__ void operator()(Floats<N>& v, std::int64_t row, std::int64_t channel) const {
    if (all) return;
    const auto t = row % rows.tokens;
    const auto sample = static_cast<std::uint64_t>(rows.sample_B[row / rows.tokens]);
    const auto element = static_cast<std::uint64_t>((rows.t0 + t) * rows.width + channel);
    if constexpr (N == 1) {
      const auto r = philox4x32(key, element / 4, sample);
      v.v[0] = drop(v.v[0], r[element % 4]);
    } else {
#pragma unroll
      for (int k = 0; k < N; k += 4) {
        const auto r = philox4x32(key, element / 4 + static_cast<std::uint64_t>(k / 4), sample);
#pragma unroll
        for (int j = 0; j < 4; ++j) v.v[k + j] = drop(v.v[k + j], r[static_cast<unsigned>(j)]);
      }
    }
  }
};

}  // namespace trireme::cuda
