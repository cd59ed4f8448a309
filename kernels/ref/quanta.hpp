#pragma once
// A view of counts of gradients' quanta that terms are added to.
#include "lib/base/fixed.hpp"
#include "lib/base/view.hpp"

namespace trireme::ref {

class Quanta {
 public:
  // `largest` may be absent. The sum is dense.
  Quanta(const View& sum, const View& largest)
      : sum_(reinterpret_cast<std::int64_t*>(sum.data)),
        largest_(reinterpret_cast<float*>(largest.data)) {
    expect(sum.dtype == DType::i64 && sum.dense(), "quanta are dense i64");
  }
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
