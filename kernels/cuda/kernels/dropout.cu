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

void run(const kernel::Dropout& o, const OnStream& on) {
  with_type(o.x_BTC.dtype, [&]<class T>(T) {
    const auto a = dropped_of<T>(o);
    const bool whole = a.rows.width % pack_of<T> == 0 && aligned(a.y, a.x, a.skip);
    with_packs<pack_of<T>>(whole, [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      launch_each(on.stream, "dropout", o.x_BTC.count() / N,
                  Drop<N, T>{a.y, a.x, a.skip, Mask(a.key, a.rows)});
    });
  });
}

}  // namespace trireme::cuda
