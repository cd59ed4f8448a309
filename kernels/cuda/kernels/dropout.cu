// Dropout and the residual sum.
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/mask.cuh"

namespace trireme::cuda {
namespace {

template <int N, class T>
struct Drop {
  T* y;
  const T *x, *skip;
  Mask mask;

  __device__ void operator()(std::int64_t i) const {
    const auto at = i * N, row = at / mask.rows.width;
    auto v = load<N>(x + at);
    mask.row(row)(v, at - row * mask.rows.width);
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
void dropout(Stream stream, const Dropped<T>& a) {
  const auto n = a.rows.samples * a.rows.tokens * a.rows.width;
  with_packs<pack_of<T>>(
      a.rows.width % pack_of<T> == 0 && aligned(a.y, a.x, a.skip), [&](auto packs) {
        constexpr int N = decltype(packs)::value;
        launch_each(stream, "dropout", n / N, Drop<N, T>{a.y, a.x, a.skip, Mask(a.key, a.rows)});
      });
}

template void dropout(Stream, const Dropped<float>&);
template void dropout(Stream, const Dropped<bf16>&);

}  // namespace trireme::cuda
