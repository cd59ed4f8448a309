#pragma once
// Results of one attention, computed in two ways.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/contract.hpp"

namespace trireme::cuda {

// Nothing is left out (it would be NaN), and nothing goes to another place: that would be off by
// about the largest number. Another engine may compute one of them. In both the weights, their
// gradients, the parts of heads and the result are rounded: eight times bf16's of that number.
inline void expect_same(const std::vector<double>& got, const std::vector<double>& want) {
  double largest = 0, most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << i;
    largest = std::max(largest, std::abs(want[i]));
    most = std::max(most, std::abs(got[i] - want[i]));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LE(most, 8 * roundoff(DType::bf16) * largest);
}

}  // namespace trireme::cuda
