#pragma once
// Dropout mask for a pack of adjacent channels. One call of the random generator yields numbers for
// four channels.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/math/dropout.hpp"

namespace trireme::cuda {

// Sample numbers and positions of the rows (SampleRows), in the form in which kernels receive them.
struct DropoutRows {
  std::int64_t samples, tokens, width, t0;
  const std::int64_t* sample_B;
  const std::int32_t* position_T;  // null means that positions count up from t0
};

// Arguments of a dropout kernel.
template <class T>
struct Dropped {
  T* y;
  const T *x, *skip;  // skip may be null
  DropoutKey key;
  DropoutRows rows;
};
template <class T>
Dropped<T> dropped_of(const kernel::Dropout& o) {
  const auto& n = o.x_BTC.extent;
  return {.y = at<T>(o.y_BTC),
          .x = at<T>(o.x_BTC),
          .skip = at<T>(o.skip_BTC),
          .key = o.key,
          .rows = {n[0], n[1], n[2], o.rows.t0, at<std::int64_t>(o.rows.sample_B),
                   at<std::int32_t>(o.rows.position_T)}};
}

// The mask of a dropout operation.
struct Mask {
  std::uint64_t key;
  math::Dropout drop;
  bool all;  // nothing is dropped
  DropoutRows rows;

  Mask(const DropoutKey& k, const DropoutRows& r) : key(k.key), drop(k.p), all(k.p == 0), rows(r) {}

  // The mask of one row.
  struct Row {
    const Mask& mask;
    std::uint64_t first = 0, sample = 0;  // index of the row's first element in its sample

    // Applies dropout to channels [channel, channel + N). Either N is 1, or N and `channel` are
    // multiples of 4.
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
    const auto position = rows.position_T ? std::int64_t{rows.position_T[t]} : rows.t0 + t;
    return {*this, static_cast<std::uint64_t>(position * rows.width),
            static_cast<std::uint64_t>(rows.sample_B[r / rows.tokens])};
  }
};

}  // namespace trireme::cuda
