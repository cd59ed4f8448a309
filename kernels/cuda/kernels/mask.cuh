#pragma once
// Dropout's mask of a pack of neighbouring channels. One random number serves four of them.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/math/dropout.hpp"

namespace trireme::cuda {

struct Mask {
  std::uint64_t key;
  math::Dropout drop;
  bool all;  // is everything kept?
  DropoutRows rows;

  Mask(const DropoutKey& k, const DropoutRows& r) : key(k.key), drop(k.p), all(k.p == 0), rows(r) {}

  // Of one row.
  struct Row {
    const Mask& mask;
    std::uint64_t first = 0, sample = 0;  // element of channel 0

    // Of channels [channel, channel + N); N is 1 or divides by 4, as channel then does.
    template <int N>
    __device__ void operator()(Floats<N>& v, std::int64_t channel) const {
      if (mask.all) return;
      const auto element = first + static_cast<std::uint64_t>(channel);
      if constexpr (N == 1) {
        const auto r = philox4x32(mask.key, element / 4, sample);
        v.v[0] = mask.drop(v.v[0], r[element % 4]);
      } else {
#pragma unroll
        for (int k = 0; k < N; k += 4) {
          const auto r =
              philox4x32(mask.key, element / 4 + static_cast<std::uint64_t>(k / 4), sample);
#pragma unroll
          for (int j = 0; j < 4; ++j)
            v.v[k + j] = mask.drop(v.v[k + j], r[static_cast<unsigned>(j)]);
        }
      }
    }
  };
  __device__ Row row(std::int64_t r) const {
    if (all) return {*this};
    const auto t = r % rows.tokens;
    return {*this, static_cast<std::uint64_t>((rows.t0 + t) * rows.width),
            static_cast<std::uint64_t>(rows.sample_B[r / rows.tokens])};
  }
};

}  // namespace trireme::cuda
