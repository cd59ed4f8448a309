#pragma once
// Integer sums in gradient quanta (lib/base/fixed.hpp) for the host kernels. Elements are added one
// block at a time. The largest term of a call is recorded.
#include <atomic>

#include "kernels/accumulate.hpp"
#include "kernels/host/blocks.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::host {

// The largest magnitude of the terms that one thread has added.
class Largest {
 public:
  void take(const float* x, std::int64_t n) {
    for_lanes(n, [&](auto i, auto l) { lanes_[l] = fixed::larger(lanes_[l], x[i]); });
  }
  void take(const bf16* x, std::int64_t n) {
    for_lanes(
        n, [&](auto i, auto l) { lanes_[l] = fixed::larger(lanes_[l], static_cast<float>(x[i])); });
  }
  // Raises `to` (f32, one element) to the largest magnitude so far. Other threads may call the
  // function at the same time. `to` may be absent.
  void put(const View& to) {
    if (!to) return;
    const float mine = lanes_.fold(fixed::larger);
    std::atomic_ref<float> all(*data<float>(to));
    float before = all.load(std::memory_order_relaxed);
    while (mine > before && !all.compare_exchange_weak(before, mine, std::memory_order_relaxed)) {
    }
  }

 private:
  Lanes<float> lanes_{0};
};

// Converts n elements of x to quanta: sum = x, or sum += x.
template <class T>
void add_quanta(std::int64_t* sum, Accumulate how, const T* x, std::int64_t n) {
  if (how == Accumulate::overwrite) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sum[i] = fixed::of_gradient(static_cast<float>(x[i]));
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      sum[i] = fixed::wrapping_sum(sum[i], fixed::of_gradient(static_cast<float>(x[i])));
  }
}

}  // namespace trireme::host
