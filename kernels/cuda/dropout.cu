// Dropout and the residual sum. One random number serves four neighbouring channels, so a thread
// makes it once where the width is a multiple of four.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/math/dropout.hpp"

namespace trireme::cuda {
namespace {

template <int N, class T>
struct Drop {
  T* y;
  const T *x, *skip;
  std::uint64_t key;
  math::Dropout drop;
  bool all;  // is everything kept?
  DropoutRows rows;

  __device__ void operator()(std::int64_t i) const {
    const auto at = i * N, row = at / rows.width, t = row % rows.tokens;
    auto v = load<N>(x + at);
    if (!all) {
      const auto sample = static_cast<std::uint64_t>(rows.sample_B[row / rows.tokens]);
      const auto element =
          static_cast<std::uint64_t>((rows.t0 + t) * rows.width + (at - row * rows.width));
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
    if (skip != nullptr) {
      const auto s = load<N>(skip + at);
#pragma unroll
      for (int k = 0; k < N; ++k) v.v[k] = s.v[k] + v.v[k];
    }
    store<N>(y + at, v);
  }
};

}  // namespace

template <class T>
void dropout(Stream stream, T* y, const T* x, const T* skip, const DropoutKey& key,
             const DropoutRows& rows) {
  const auto n = rows.samples * rows.tokens * rows.width;
  with_packs<pack_of<T>>(rows.width % pack_of<T> == 0 && aligned(y, x, skip), [&](auto packs) {
    constexpr int N = decltype(packs)::value;
    launch_each(stream, "dropout", n / N,
                Drop<N, T>{y, x, skip, key.key, math::Dropout(key.p), key.p == 0, rows});
  });
}

template void dropout(Stream, float*, const float*, const float*, const DropoutKey&,
                      const DropoutRows&);
template void dropout(Stream, bf16*, const bf16*, const bf16*, const DropoutKey&,
                      const DropoutRows&);

}  // namespace trireme::cuda
