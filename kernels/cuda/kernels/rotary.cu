// Rotary position embedding in place. Each thread rotates a pack of one head's pairs.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/math/rotary.hpp"

namespace trireme::cuda {
namespace {

template <int N, class T>
struct Rotary {
  Heads<T> x;
  const float* table_T2E;
  float sign;
  std::int64_t tokens, heads, half;
  const std::int32_t* position_BT;  // may be null
  std::int64_t of_sample;           // stride of position_BT

  __device__ void operator()(std::int64_t i) const {
    const auto packs = half / N;
    const auto e = i % packs * N, row = i / packs;
    const auto h = row % heads, t = row / heads % tokens, b = row / heads / tokens;
    T* const at = x.data + b * x.sample + t * x.token + h * x.head + e;
    const auto position = position_BT ? std::int64_t{position_BT[b * of_sample + t]} : t;
    const float* const angle = table_T2E + position * 2 * half + e;
    auto x1 = load<N>(at), x2 = load<N>(at + half);
    const auto c = load<N>(angle), s = load<N>(angle + half);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const auto turned = math::turn({x1.v[k], x2.v[k]}, c.v[k], sign * s.v[k]);
      x1.v[k] = turned.x1;
      x2.v[k] = turned.x2;
    }
    store<N>(at, x1);
    store<N>(at + half, x2);
  }
};

}  // namespace

void run(const kernel::Rotary& o, const OnStream& on) {
  const auto& n = o.x_BTHD.extent;
  const auto half = n[3] / 2;
  const float sign = o.direction == Direction::forward ? 1.0F : -1.0F;
  with_type(o.x_BTHD.dtype, [&]<class T>(T) {
    const auto x = heads<T>(o.x_BTHD);
    const auto* const table = at<float>(o.table_T2E);
    const auto whole = [](std::int64_t i) { return i % pack_of<T> == 0; };
    with_packs<pack_of<T>>(
        aligned(x.data, table) && whole(half) && whole(x.sample) && whole(x.token) && whole(x.head),
        [&](auto packs) {
          constexpr int N = decltype(packs)::value;
          launch_each(on.stream, "rotary", n[0] * n[1] * n[2] * (half / N),
                      Rotary<N, T>{x, table, sign, n[1], n[2], half,
                                   at<std::int32_t>(o.position_BT), o.position_BT.stride[0]});
        });
  });
}

}  // namespace trireme::cuda
