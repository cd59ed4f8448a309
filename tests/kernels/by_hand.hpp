#pragma once
// Short vectors as operands, and what is in them after an operation.
#include <gtest/gtest.h>

#include <initializer_list>
#include <type_traits>
#include <vector>

#include "kernels/operations.hpp"

namespace trireme {

template <class T>
View view(std::vector<T>& v, const Shape& s) {
  EXPECT_EQ(static_cast<std::int64_t>(v.size()), s.count());
  return {reinterpret_cast<std::byte*>(v.data()), dtype_of<T>, s};
}

template <class T>
void expect_values(const std::vector<T>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    double x;
    if constexpr (std::is_same_v<T, bf16>)
      x = static_cast<float>(got[i]);
    else
      x = static_cast<double>(got[i]);
    EXPECT_NEAR(x, want[i], tolerance) << "element " << i;
  }
}

// A few roundings in double, of values up to 10.
inline constexpr double tiny = 1e-14;

inline std::vector<bf16> bf16s(std::initializer_list<float> values) {
  std::vector<bf16> v;
  for (float x : values) v.emplace_back(x);
  return v;
}

}  // namespace trireme
