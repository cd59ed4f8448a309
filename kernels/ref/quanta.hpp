#pragma once
// Integer sums in gradient quanta (lib/base/fixed.hpp), stored in a view, for the reference
// kernels.
#include "lib/base/fixed.hpp"
#include "lib/base/view.hpp"

namespace trireme::ref {

// A view of i64 sums in quanta, to which terms are added one at a time.
class Quanta {
 public:
  // `sum` must be a dense i64 view. `largest` (f32, one element) may be absent.
  Quanta(const View& sum, const View& largest)
      : sum_(reinterpret_cast<std::int64_t*>(sum.data)),
        largest_(reinterpret_cast<float*>(largest.data)) {
    expect(sum.dtype == DType::i64 && sum.dense(), "quanta are dense i64");
  }
  // Adds x to element i, rounded to quanta, and raises `largest` to |x| if |x| is larger.
  void add(std::int64_t i, double x) const {
    const auto term = static_cast<float>(x);
    sum_[i] = fixed::wrapping_sum(sum_[i], fixed::of_gradient(term));
    if (largest_) *largest_ = fixed::larger(*largest_, term);
  }

 private:
  std::int64_t* sum_;
  float* largest_;
};

}  // namespace trireme::ref
