#pragma once
// Causal attention of the flat step: one head of one sample is a task, with its T x T matrices in
// memory of its thread; products by the BLAS-like call, which runs on one thread there.
#include <omp.h>

#include <cmath>
#include <limits>

#include "kernels/host/onednn.hpp"
#include "tests/bench/flat_kernels.hpp"
#include "tests/bench/shapes.hpp"

namespace trireme::bench {

template <class T>
class Attention {
 public:
  explicit Attention(const Model& m) : m_(m) {
    const auto per_thread = 2 * m_.T * m_.T + 8 * m_.T * m_.head_dim();
    for (int t = 0; t < omp_get_max_threads(); ++t) {
      local_.push_back(take(DType::f32, {per_thread}));
    }
  }

  // out [R, C] and lse [B * heads, T] from qkv [R, 3C]
  void forward(const View& out, float* lse, const View& qkv) {
#pragma omp parallel for
    for (Size i = 0; i < m_.B * m_.heads; ++i) {
      Local local(*this);
      const auto p = local.take(m_.T), q = read(local, qkv, i, 0), k = read(local, qkv, i, 1),
                 v = read(local, qkv, i, 2);
      multiply(p, q, k.transposed());
      for (Size t = 0; t < m_.T; ++t) lse[i * m_.T + t] = softmax(pointer<float>(p) + t * m_.T, t);
      const auto to = head(out, i, 0);
      const auto o = sizeof(T) == 4 ? to : local.take(m_.head_dim());
      multiply(o, p, v);
      write(to, o);
    }
  }

  void backward(const View& dqkv, const View& d_out, const View& out, const float* lse,
                const View& qkv) {
#pragma omp parallel for
    for (Size i = 0; i < m_.B * m_.heads; ++i) {
      Local local(*this);
      const auto n = m_.T, D = m_.head_dim();
      const auto p = local.take(n), ds = local.take(n), q = read(local, qkv, i, 0),
                 k = read(local, qkv, i, 1), v = read(local, qkv, i, 2),
                 d_o = read(local, d_out, i, 0);
      const auto o = head(out, i, 0);
      multiply(p, q, k.transposed());
      multiply(ds, d_o, v.transposed());
      for (Size t = 0; t < n; ++t) {
        float dot = 0;
        const T* orow = pointer<T>(o) + t * o.stride[0];
        const float* drow = pointer<float>(d_o) + t * d_o.stride[0];
        for (Size d = 0; d < D; ++d) dot += wide(orow[d]) * drow[d];
        float *row = pointer<float>(p) + t * n, *drow_s = pointer<float>(ds) + t * n;
        for (Size u = 0; u <= t; ++u) {
          row[u] = fast_exp(row[u] * scale() - lse[i * n + t]);
          drow_s[u] = row[u] * (drow_s[u] - dot) * scale();
        }
        for (Size u = t + 1; u < n; ++u) row[u] = drow_s[u] = 0;
      }
      const auto gradient = [&](Size which, const View& a, const View& b) {
        const auto to = head(dqkv, i, which);
        const auto sum = sizeof(T) == 4 ? to : local.take(D);
        multiply(sum, a, b);
        write(to, sum);
      };
      gradient(0, ds, k);
      gradient(1, ds.transposed(), q);
      gradient(2, p.transposed(), d_o);
    }
  }

 private:
  // Matrices [T, cols] one behind the other in the thread's memory.
  class Local {
   public:
    explicit Local(const Attention& a)
        : next_(pointer<float>(a.local_[static_cast<std::size_t>(omp_get_thread_num())])),
          rows_(a.m_.T) {}
    View take(Size cols) {
      const View v(reinterpret_cast<std::byte*>(next_), DType::f32, {rows_, cols});
      next_ += v.count();
      return v;
    }

   private:
    float* next_;
    Size rows_;
  };

  float scale() const {
    return 1.0F / std::sqrt(static_cast<float>(m_.head_dim()));
  }

  View head(const View& x, Size i, Size which) const {
    return x.slice(0, i / m_.heads * m_.T, m_.T)
        .slice(1, which * m_.C + i % m_.heads * m_.head_dim(), m_.head_dim());
  }
  // In f32: where it lies, or a widened copy.
  View read(Local& local, const View& x, Size i, Size which) const {
    const auto from = head(x, i, which);
    if constexpr (sizeof(T) == 4) return from;
    const auto to = local.take(m_.head_dim());
    for (Size t = 0; t < m_.T; ++t) {
      const T* row = pointer<T>(from) + t * from.stride[0];
      float* copy = pointer<float>(to) + t * m_.head_dim();
      for (Size d = 0; d < m_.head_dim(); ++d) copy[d] = wide(row[d]);
    }
    return to;
  }
  void write(const View& to, const View& from) const {
    if (to.data == from.data) return;
    for (Size t = 0; t < m_.T; ++t) {
      T* row = pointer<T>(to) + t * to.stride[0];
      const float* source = pointer<float>(from) + t * m_.head_dim();
      for (Size d = 0; d < m_.head_dim(); ++d) row[d] = T(source[d]);
    }
  }
  static void multiply(const View& c, const View& a, const View& b) {
    host::onednn::sgemm(c, a, b, Accumulate::overwrite);
  }
  // Row t sees keys 0..t; returns the log of the sum of exponentials.
  float softmax(float* row, Size t) const {
    float top = -std::numeric_limits<float>::infinity(), sum = 0;
    for (Size u = 0; u <= t; ++u) {
      row[u] *= scale();
      top = row[u] > top ? row[u] : top;
    }
#pragma omp simd reduction(+ : sum)
    for (Size u = 0; u <= t; ++u) {
      row[u] = fast_exp(row[u] - top);
      sum += row[u];
    }
    for (Size u = 0; u <= t; ++u) row[u] /= sum;
    for (Size u = t + 1; u < m_.T; ++u) row[u] = 0;
    return top + std::log(sum);
  }

  Model m_;
  std::vector<View> local_;
};

}  // namespace trireme::bench
