// Optimizer steps over flat shards: master weights, moments and the compute type's copy in one
// pass.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"

namespace trireme::cuda {
namespace {

constexpr int step = 4;  // 16 bytes of f32

template <int N, class T>
struct Sgd {
  float* master;
  T* copy;
  const float* grad;
  math::SgdUpdate update;

  __device__ void operator()(std::int64_t i) const {
    const auto at = i * N;
    auto w = load<N>(master + at);
    const auto g = load<N>(grad + at);
#pragma unroll
    for (int k = 0; k < N; ++k) w.v[k] = update(w.v[k], g.v[k]);
    store<N>(master + at, w);
    if (copy != nullptr) store<N>(copy + at, w);
  }
};

template <int N, class T>
struct AdamW {
  float *master, *m, *v;
  T* copy;
  const float* grad;
  math::AdamWUpdate update;

  __device__ void operator()(std::int64_t i) const {
    const auto at = i * N;
    auto w = load<N>(master + at), m_ = load<N>(m + at), v_ = load<N>(v + at);
    const auto g = load<N>(grad + at);
#pragma unroll
    for (int k = 0; k < N; ++k) update(w.v[k], m_.v[k], v_.v[k], g.v[k]);
    store<N>(master + at, w);
    store<N>(m + at, m_);
    store<N>(v + at, v_);
    if (copy != nullptr) store<N>(copy + at, w);
  }
};

// one(N, first): what handles N elements a call from element `first` on. Whole packs, then the
// rest.
template <class Make>
void in_packs(Stream stream, const char* name, bool whole, std::int64_t n, const Make& make) {
  const auto body = whole ? n / step * step : 0;
  launch_each(stream, name, body / step, make(std::integral_constant<int, step>{}, 0));
  launch_each(stream, name, n - body, make(std::integral_constant<int, 1>{}, body));
}

template <class T>
T* advanced(T* p, std::int64_t n) {
  return p == nullptr ? p : p + n;
}

}  // namespace

template <class T>
void sgd(Stream stream, float* master, T* copy, const float* grad, std::int64_t n,
         math::SgdUpdate update) {
  in_packs(stream, "sgd", aligned(master, copy, grad), n, [&](auto packs, std::int64_t first) {
    return Sgd<decltype(packs)::value, T>{master + first, advanced(copy, first), grad + first,
                                          update};
  });
}

template <class T>
void adamw(Stream stream, float* master, float* m, float* v, T* copy, const float* grad,
           std::int64_t n, math::AdamWUpdate update) {
  in_packs(stream, "adamw", aligned(master, m, v, copy, grad), n,
           [&](auto packs, std::int64_t first) {
             return AdamW<decltype(packs)::value, T>{master + first,        m + first,    v + first,
                                                     advanced(copy, first), grad + first, update};
           });
}

template void sgd(Stream, float*, float*, const float*, std::int64_t, math::SgdUpdate);
template void sgd(Stream, float*, bf16*, const float*, std::int64_t, math::SgdUpdate);
template void adamw(Stream, float*, float*, float*, float*, const float*, std::int64_t,
                    math::AdamWUpdate);
template void adamw(Stream, float*, float*, float*, bf16*, const float*, std::int64_t,
                    math::AdamWUpdate);

}  // namespace trireme::cuda
