// Activations and SwiGLU with the formulas that the host backend uses (kernels/math), 16 bytes at a
// time.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/quick.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"
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

// Computes y[i] = f(x[i]) or f(x[i], z[i]) for one pack. The last pack may be incomplete.
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
struct Scale {
  std::int64_t n;
  T* x;
  float factor;

  __device__ void operator()(std::int64_t pack) const {
    const auto at = pack * N;
    if (at + N > n) {
      for (auto i = at; i < n; ++i) x[i] = rounded<T>(factor * widen(x[i]));
      return;
    }
    auto v = load<N>(x + at);
#pragma unroll
    for (int i = 0; i < N; ++i) v.v[i] *= factor;
    store<N>(x + at, v);
  }
};

template <int N, class Gate, class T>
struct Swiglu {
  T* y_TF;
  const T* gate_up_T2F;
  const float* weight_T;  // may be null
  std::int64_t width;

  __device__ void operator()(std::int64_t pack) const {
    const auto at = pack * N, row = at / width;
    const auto* gate_at = gate_up_T2F + at + row * width;
    const auto gate = load<N>(gate_at), up = load<N>(gate_at + width);
    const float weight = weight_T == nullptr ? 1 : weight_T[row];
    Floats<N> y;
#pragma unroll
    for (int i = 0; i < N; ++i)
      y.v[i] = Gate::template value<Arithmetic<T>>(gate.v[i], up.v[i]) * weight;
    store<N>(y_TF + at, y);
  }
};

template <int N, class Gate, class T>
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
      const auto g = Gate::template gradient<Arithmetic<T>>(dy.v[i], gate.v[i], up.v[i]);
      dgate.v[i] = g.gate;
      dup.v[i] = g.up;
    }
    store<N>(dgate_up_T2F + gate_at, dgate);
    store<N>(dgate_up_T2F + gate_at + width, dup);
  }
};

// Computes the gradients with weights. Each warp processes one row. The gradient of a row's weight
// is a sum in f32, for which the quick functions are too coarse.
template <int N, class Gate, class T>
__global__ void __launch_bounds__(block_threads)
    weighted_swiglu_grad(T* dgate_up_T2F, float* dweight_T, const T* dy_TF, const T* gate_up_T2F,
                         const float* weight_T, std::int64_t rows, std::int64_t width) {
  const auto row =
      static_cast<std::int64_t>(blockIdx.x) * (block_threads / warp) + threadIdx.x / warp;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const T *const dy_at = dy_TF + row * width, *const gate_at = gate_up_T2F + 2 * row * width;
  T* const dgate_at = dgate_up_T2F + 2 * row * width;
  const float weight = weight_T[row];
  float sum = 0;
  for (std::int64_t at = lane * N; at < width; at += warp * N) {
    const auto dy = load<N>(dy_at + at);
    const auto gate = load<N>(gate_at + at), up = load<N>(gate_at + width + at);
    Floats<N> dgate, dup;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const auto g = Gate::gradient(dy.v[i], gate.v[i], up.v[i]);
      sum += g.weight;
      dgate.v[i] = g.gate * weight;
      dup.v[i] = g.up * weight;
    }
    store<N>(dgate_at + at, dgate);
    store<N>(dgate_at + width + at, dup);
  }
  if (dweight_T == nullptr) return;
  sum = warp_sum(sum);
  if (lane == 0) dweight_T[row] = sum;
}

}  // namespace

void run(const kernel::Activate& o, const OnStream& on) {
  with_type(o.x_N.dtype, [&]<class T>(T) {
    auto* const y = at<T>(o.y_N);
    const auto* const x = at<T>(o.x_N);
    const auto n = o.x_N.count();
    math::with_formula(o.activation, [&]<class Formula>(Formula) {
      with_packs<pack_of<T>>(aligned(y, x), [&](auto packs) {
        constexpr int N = decltype(packs)::value;
        launch_each(on.stream, "activate", (n + N - 1) / N, Map1<N, Value<Formula, T>, T>{n, y, x});
      });
    });
  });
}

void run(const kernel::ActivateGrad& o, const OnStream& on) {
  with_type(o.x_N.dtype, [&]<class T>(T) {
    auto* const dx = at<T>(o.dx_N);
    const auto *const dy = at<T>(o.dy_N), *const x = at<T>(o.x_N);
    const auto n = o.x_N.count();
    math::with_formula(o.activation, [&]<class Formula>(Formula) {
      with_packs<pack_of<T>>(aligned(dx, dy, x), [&](auto packs) {
        constexpr int N = decltype(packs)::value;
        launch_each(on.stream, "activate_grad", (n + N - 1) / N,
                    Map2<N, Slope<Formula, T>, T>{n, dx, dy, x});
      });
    });
  });
}

void run(const kernel::Scale& o, const OnStream& on) {
  with_type(o.x_N.dtype, [&]<class T>(T) {
    auto* const x = at<T>(o.x_N);
    const auto n = o.x_N.count();
    with_packs<pack_of<T>>(aligned(x), [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      launch_each(on.stream, "scale", (n + N - 1) / N,
                  Scale<N, T>{n, x, static_cast<float>(o.factor)});
    });
  });
}

void run(const kernel::Swiglu& o, const OnStream& on) {
  with_type(o.y_TF.dtype, [&]<class T>(T) {
    auto* const y = at<T>(o.y_TF);
    const auto* const gate_up = at<T>(o.gate_up_T2F);
    const auto width = o.y_TF.extent[1];
    with_packs<pack_of<T>>(width % pack_of<T> == 0 && aligned(y, gate_up), [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      math::with_gate(o.gate, [&]<class Gate>(Gate) {
        launch_each(on.stream, "swiglu", o.y_TF.count() / N,
                    Swiglu<N, Gate, T>{y, gate_up, at<float>(o.weight_T), width});
      });
    });
  });
}

void run(const kernel::SwigluGrad& o, const OnStream& on) {
  with_type(o.dy_TF.dtype, [&]<class T>(T) {
    auto* const dgate_up = at<T>(o.dgate_up_T2F);
    const auto *const dy = at<T>(o.dy_TF), *const gate_up = at<T>(o.gate_up_T2F);
    const auto rows = o.dy_TF.extent[0], width = o.dy_TF.extent[1];
    const bool whole = width % pack_of<T> == 0 && aligned(dgate_up, dy, gate_up);
    with_packs<pack_of<T>>(whole, [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      math::with_gate(o.gate, [&]<class Gate>(Gate) {
        if (o.weight_T && rows > 0)
          return start("swiglu_grad", weighted_swiglu_grad<N, Gate, T>,
                       blocks_for(rows, block_threads / warp), block_threads, 0, on.stream,
                       dgate_up, at<float>(o.dweight_T), dy, gate_up, at<float>(o.weight_T), rows,
                       width);
        launch_each(on.stream, "swiglu_grad", o.dy_TF.count() / N,
                    SwigluGrad<N, Gate, T>{dgate_up, dy, gate_up, width});
      });
    });
  });
}

}  // namespace trireme::cuda
