#pragma once
// Loops of the flat step over plain arrays: T is float or bf16, arithmetic in float. Rows are
// shared out among OpenMP threads. Shapes: R rows, C width, V vocabulary.
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "lib/base/dtype.hpp"

namespace trireme::bench {

using Size = std::int64_t;

template <class T>
float wide(T x) {
  return static_cast<float>(x);
}

// exp to 2 ulp: 2^n times a polynomial on [-ln2/2, ln2/2] (Taylor to x^7); branch-free. Inlined by
// force: a call left in a loop costs it its vectors. The range keeps results away from denormals,
// which cost a hundred cycles each.
[[gnu::always_inline]] inline float fast_exp(float x) {
  x = x < -60.0F ? -60.0F : (x > 60.0F ? 60.0F : x);
  const float shifted = x * 1.44269504F + 12582912.0F;  // 1.5 * 2^23: rounds to an integer
  const float n = shifted - 12582912.0F;
  const float r = (x - n * 0.693145751953125F) - n * 1.42860677e-6F;
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const auto scale = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(scale);
}

// 0.5 x (1 + tanh u) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
[[gnu::always_inline]] inline float sigmoid_2u(float x) {
  return 1.0F / (1.0F + fast_exp(-1.5957691216F * (x + 0.044715F * x * x * x)));
}

// Chunks for the threads; inside them plain loops, which GCC vectorises also for bf16.
template <class Body>
void for_each_chunk(Size n, const Body& body) {
  constexpr Size chunk = 4096;
#pragma omp parallel for
  for (Size begin = 0; begin < n; begin += chunk)
    body(begin, n - begin < chunk ? n : begin + chunk);
}

template <class T>
void gelu(T* y, const T* x, Size n) {
  for_each_chunk(n, [=](Size begin, Size end) {
    for (Size i = begin; i < end; ++i) y[i] = T(wide(x[i]) * sigmoid_2u(wide(x[i])));
  });
}

// In place: d = dy * gelu'(x).
template <class T>
void gelu_grad(T* d, const T* x, Size n) {
  for_each_chunk(n, [=](Size begin, Size end) {
    for (Size i = begin; i < end; ++i) {
      const float v = wide(x[i]), s = sigmoid_2u(v);
      const float slope = s + v * s * (1.0F - s) * 1.5957691216F * (1.0F + 0.134145F * v * v);
      d[i] = T(wide(d[i]) * slope);
    }
  });
}

// x += branch (absent for the first norm), y = (x - mean) rstd w + b.
template <class T>
void add_and_norm(T* y, float* mean, float* rstd, T* sum, const T* x, const T* branch, const T* w,
                  const T* b, Size R, Size C) {
#pragma omp parallel for
  for (Size r = 0; r < R; ++r) {
    const T* row = x + r * C;
    if (branch != nullptr) {
      const T* more = branch + r * C;
      T* to = sum + r * C;
      for (Size i = 0; i < C; ++i) to[i] = T(wide(row[i]) + wide(more[i]));
      row = to;
    }
    float total = 0, squares = 0;
#pragma omp simd reduction(+ : total)
    for (Size i = 0; i < C; ++i) total += wide(row[i]);
    const float m = total / static_cast<float>(C);
#pragma omp simd reduction(+ : squares)
    for (Size i = 0; i < C; ++i) squares += (wide(row[i]) - m) * (wide(row[i]) - m);
    const float s = 1.0F / std::sqrt(squares / static_cast<float>(C) + 1e-5F);
    mean[r] = m;
    rstd[r] = s;
    T* out = y + r * C;
    for (Size i = 0; i < C; ++i) out[i] = T((wide(row[i]) - m) * s * wide(w[i]) + wide(b[i]));
  }
}

// dx += gradient through the norm; dw and db are overwritten, added up thread by thread.
template <class T>
void norm_grad(T* dx, float* dw, float* db, const T* dy, const T* x, const T* w, const float* mean,
               const float* rstd, Size R, Size C) {
  static std::vector<float> partial;
  partial.resize(static_cast<std::size_t>(2 * C * omp_get_max_threads()));
  int team = 1;
#pragma omp parallel
  {
#pragma omp single
    team = omp_get_num_threads();
    float* pw = partial.data() + 2 * C * omp_get_thread_num();
    float* pb = pw + C;
    for (Size i = 0; i < 2 * C; ++i) pw[i] = 0;
#pragma omp for
    for (Size r = 0; r < R; ++r) {
      const T *g = dy + r * C, *v = x + r * C;
      const float m = mean[r], s = rstd[r];
      float a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
      for (Size i = 0; i < C; ++i) {
        const float d = wide(g[i]), hat = (wide(v[i]) - m) * s;
        a += d * wide(w[i]);
        b += d * wide(w[i]) * hat;
        pw[i] += d * hat;
        pb[i] += d;
      }
      a /= static_cast<float>(C), b /= static_cast<float>(C);
      T* to = dx + r * C;
      for (Size i = 0; i < C; ++i) {
        const float hat = (wide(v[i]) - m) * s;
        to[i] = T(wide(to[i]) + s * (wide(g[i]) * wide(w[i]) - a - hat * b));
      }
    }
  }
  for (Size i = 0; i < C; ++i) {
    dw[i] = db[i] = 0;
    for (int t = 0; t < team; ++t) {
      dw[i] += partial[static_cast<std::size_t>(2 * C * t + i)];
      db[i] += partial[static_cast<std::size_t>(2 * C * t + C + i)];
    }
  }
}

template <class T>
void column_sum(float* out, const T* x, Size R, Size N) {
  constexpr Size block = 64;
#pragma omp parallel for
  for (Size begin = 0; begin < N; begin += block) {
    const Size n = N - begin < block ? N - begin : block;
    float sum[block] = {};
    for (Size r = 0; r < R; ++r) {
      for (Size i = 0; i < n; ++i) sum[i] += wide(x[r * N + begin + i]);
    }
    for (Size i = 0; i < n; ++i) out[begin + i] = sum[i];
  }
}

// Sum over rows of -log softmax[target]; logits become scale * (softmax - one_hot).
template <class T>
double cross_entropy(T* logits, const std::int32_t* target, float scale, Size R, Size V) {
  double loss = 0;
#pragma omp parallel for reduction(+ : loss)
  for (Size r = 0; r < R; ++r) {
    T* row = logits + r * V;
    float top = wide(row[0]), sum = 0;
#pragma omp simd reduction(max : top)
    for (Size i = 0; i < V; ++i) top = wide(row[i]) > top ? wide(row[i]) : top;
#pragma omp simd reduction(+ : sum)
    for (Size i = 0; i < V; ++i) sum += fast_exp(wide(row[i]) - top);
    const float at_target = wide(row[target[r]]);
    loss += std::log(sum) + top - at_target;
    const float inverse = scale / sum;
    for (Size i = 0; i < V; ++i) row[i] = T(fast_exp(wide(row[i]) - top) * inverse);
    row[target[r]] = T(fast_exp(at_target - top) * inverse - scale);
  }
  return loss;
}

inline double sum_squares(const float* x, Size n) {
  double total = 0;
  constexpr Size chunk = 4096;
#pragma omp parallel for reduction(+ : total)
  for (Size begin = 0; begin < n; begin += chunk) {
    const Size end = n - begin < chunk ? n : begin + chunk;
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (Size i = begin; i < end; ++i) part += x[i] * x[i];
    total += part;
  }
  return total;
}

struct Rates {
  float lr, scale, correct_m, correct_v;  // corrections 1 / (1 - beta^count)
};

// Loshchilov, Hutter 2019. `copy` is the weights' copy in T, or w itself.
template <class T>
void adamw(float* w, float* m, float* v, T* copy, const float* grad, Size n, const Rates& k) {
  for_each_chunk(n, [=](Size begin, Size end) {
    for (Size i = begin; i < end; ++i) {
      const float g = grad[i] * k.scale;
      m[i] = 0.9F * m[i] + 0.1F * g;
      v[i] = 0.99F * v[i] + 0.01F * g * g;
      w[i] -= k.lr * (m[i] * k.correct_m / (std::sqrt(v[i] * k.correct_v) + 1e-8F) + 0.1F * w[i]);
    }
    if constexpr (sizeof(T) < sizeof(float)) {
      for (Size i = begin; i < end; ++i) copy[i] = T(w[i]);
    }
  });
}

}  // namespace trireme::bench
