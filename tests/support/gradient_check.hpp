#pragma once
// Gradients against central differences in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace trireme {

// Expects that `gradient` is the derivative of f by x, element by element. f() reads x itself,
// which is changed meanwhile and put back.
//
// (f(x + h) - f(x - h)) / 2h errs by h^2 |f'''| / 6 + 2^-53 |f| / h. h = 2^-17, near the cube root
// of 2^-53, makes that about 1e-11 for values and derivatives of order 1, where `relative` (to the
// largest derivative) is 1e-7: four digits are left for sums and larger derivatives.
inline void expect_gradient(const std::function<double()>& f, std::span<double> x,
                            std::span<const double> gradient, double relative = 1e-7) {
  ASSERT_EQ(x.size(), gradient.size());
  constexpr double h = 0x1p-17;
  std::vector<double> difference(x.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + h;
    const double above = f();
    x[i] = at - h;
    const double below = f();
    x[i] = at;
    difference[i] = (above - below) / (2 * h);
    largest = std::max(largest, std::abs(difference[i]));
  }
  ASSERT_GT(largest, 0) << "f does not depend on x: this test would show nothing";
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(gradient[i], difference[i], relative * largest) << "element " << i;
}

}  // namespace trireme
