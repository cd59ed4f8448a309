// Activations and SwiGLU with the host's functors (kernels/math), 16 bytes at a time.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/quick.cuh"
#include "kernels/math/activations.hpp"
#include "kernels/math/swiglu.hpp"

namespace trireme::cuda {
namespace {

template <class Formula, class T>
struct Value {
  __device__ float operator()(float x) const { return Formula::template value<Arithmetic<T>>(x); }
};
template <class Formula, class T>
struct Slope {
  __device__ float operator()(float dy, float x) const {
    return dy * Formula::template slope<Arithmetic<T>>(x);
  }
};

// y[i] = f(x[i]) or f(x[i], z[i]) for a pack; the last one may be cut short.
template <int N, class F, class T>
struct Map1 {
  std::int64_t n;
  T* y;
  const T* x;

  __device__ void operator()(std::int64_t pack) const {
    const auto at = pack * N;
    if (at + N > n) {
      for (auto i = at; i < n; ++i) y[i] = rounded<T>(F{}(widen(x[i])));
      return;
    }
    auto v = load<N>(x + at);
#pragma unroll
    for (int i = 0; i < N; ++i) v.v[i] = F{}(v.v[i]);
    store<N>(y + at, v);
  }
};

template <int N, class F, class T>
struct Map2 {
  std::int64_t n;
  T* y;
  const T *x, *z;

  __device__ void operator()(std::int64_t pack) const {
    const auto at = pack * N;
    if (at + N > n) {
      for (auto i = at; i < n; ++i) y[i] = rounded<T>(F{}(widen(x[i]), widen(z[i])));
      return;
    }
    auto v = load<N>(x + at);
    const auto w = load<N>(z + at);
#pragma unroll
    for (int i = 0; i < N; ++i) v.v[i] = F{}(v.v[i], w.v[i]);
    store<N>(y + at, v);
  }
};

template <int N, class T>
struct Swiglu {
  T* y_TF;
  const T* gate_up_T2F;
  std::int64_t width;

  __device__ void operator()(std::int64_t pack) const {
    const auto at = pack * N, row = at / width;
    const auto* gate_at = gate_up_T2F + at + row * width;
    const auto gate = load<N>(gate_at), up = load<N>(gate_at + width);
    Floats<N> y;
#pragma unroll
    for (int i = 0; i < N; ++i) y.v[i] = math::swiglu<Arithmetic<T>>(gate.v[i], up.v[i]);
    store<N>(y_TF + at, y);
  }
};

template <int N, class T>
struct SwigluGrad {
  T* dgate_up_T2F;
  const T *dy_TF, *gate_up_T2F;
  std::int64_t width;

  __device__ void operator()(std::int64_t pack) const {
    const auto at = pack * N, gate_at = at + at / width * width;
    const auto dy = load<N>(dy_TF + at);
    const auto gate = load<N>(gate_up_T2F + gate_at), up = load<N>(gate_up_T2F + gate_at + width);
    Floats<N> dgate, dup;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const auto g = math::swiglu_gradient<Arithmetic<T>>(dy.v[i], gate.v[i], up.v[i]);
      dgate.v[i] = g.gate;
      dup.v[i] = g.up;
    }
    store<N>(dgate_up_T2F + gate_at, dgate);
    store<N>(dgate_up_T2F + gate_at + width, dup);
  }
};

}  // namespace

template <class T>
void activate(Stream stream, Activation a, T* y, const T* x, std::int64_t n) {
  math::with_formula(a, [&]<class Formula>(Formula) {
    with_packs<pack_of<T>>(aligned(y, x), [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      launch_each(stream, "activate", (n + N - 1) / N, Map1<N, Value<Formula, T>, T>{n, y, x});
    });
  });
}

template <class T>
void activate_grad(Stream stream, Activation a, T* dx, const T* dy, const T* x, std::int64_t n) {
  math::with_formula(a, [&]<class Formula>(Formula) {
    with_packs<pack_of<T>>(aligned(dx, dy, x), [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      launch_each(stream, "activate_grad", (n + N - 1) / N,
                  Map2<N, Slope<Formula, T>, T>{n, dx, dy, x});
    });
  });
}

template <class T>
void swiglu(Stream stream, T* y, const T* gate_up, std::int64_t rows, std::int64_t width) {
  with_packs<pack_of<T>>(width % pack_of<T> == 0 && aligned(y, gate_up), [&](auto packs) {
    constexpr int N = decltype(packs)::value;
    launch_each(stream, "swiglu", rows * width / N, Swiglu<N, T>{y, gate_up, width});
  });
}

template <class T>
void swiglu_grad(Stream stream, T* dgate_up, const T* dy, const T* gate_up, std::int64_t rows,
                 std::int64_t width) {
  with_packs<pack_of<T>>(width % pack_of<T> == 0 && aligned(dgate_up, dy, gate_up),
                         [&](auto packs) {
                           constexpr int N = decltype(packs)::value;
                           launch_each(stream, "swiglu_grad", rows * width / N,
                                       SwigluGrad<N, T>{dgate_up, dy, gate_up, width});
                         });
}

template void activate(Stream, Activation, float*, const float*, std::int64_t);
template void activate(Stream, Activation, bf16*, const bf16*, std::int64_t);
template void activate_grad(Stream, Activation, float*, const float*, const float*, std::int64_t);
template void activate_grad(Stream, Activation, bf16*, const bf16*, const bf16*, std::int64_t);
template void swiglu(Stream, float*, const float*, std::int64_t, std::int64_t);
template void swiglu(Stream, bf16*, const bf16*, std::int64_t, std::int64_t);
template void swiglu_grad(Stream, float*, const float*, const float*, std::int64_t, std::int64_t);
template void swiglu_grad(Stream, bf16*, const bf16*, const bf16*, std::int64_t, std::int64_t);

}  // namespace trireme::cuda
