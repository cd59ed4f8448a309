#include "kernels/work.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// No memory is looked at.
View view(DType t, const Shape& s) {
  static std::byte somewhere{};
  return {&somewhere, t, s};
}

TEST(Work, CountsWhatViewsShow) {
  const auto x = view(DType::bf16, {6, 10}), mean = view(DType::f32, {6});
  EXPECT_EQ(moving({x, mean}).bytes, 120 + 24);
  EXPECT_EQ(moving({x, View{}}).bytes, 120);               // absent
  EXPECT_EQ(moving({x.slice(1, 2, 3)}).bytes, 2 * 6 * 3);  // not what lies between
  EXPECT_EQ(moving({x, mean}).flops, 0);
}

TEST(Work, AResultThatIsAddedToIsReadToo) {
  const auto x = view(DType::bf16, {10}), sum = view(DType::f32, {10});
  EXPECT_EQ(moving({x}, Accumulate::overwrite, {sum}).bytes, 20 + 40);
  EXPECT_EQ(moving({x}, Accumulate::add, {sum}).bytes, 20 + 80);
}

TEST(Work, ProductsAndAttention) {
  EXPECT_EQ(product_flops(view(DType::f32, {3, 5}), view(DType::f32, {3, 7})), 2 * 3 * 5 * 7);
  const AttentionShape s{2, 8, 4, 2, 16, 1};
  const double square = 2 * 8 * 8 * 16;  // one T x T x D product of one head
  EXPECT_EQ(attention_flops(s, Direction::forward), 2 * 4 * square);
  EXPECT_EQ(attention_flops(s, Direction::backward), 2 * 4 * 2.5 * square);
}

TEST(Work, RowsOfATableCountOnce) {
  const auto table = view(DType::f32, {100, 4});
  EXPECT_EQ(bytes_of_rows(table, 30), 30 * 4 * 4);
  EXPECT_EQ(bytes_of_rows(table, 1000), 100 * 4 * 4);
}

}  // namespace
}  // namespace trireme
