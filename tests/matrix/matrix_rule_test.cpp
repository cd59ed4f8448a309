#include "lib/matrix/matrix_rule.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(MatrixRule, HasScalesAsComputedByHand) {
  struct {
    MatrixScale scale;
    std::int64_t out, in;
    double factor;
  } const by_hand[] = {
      {MatrixScale::jordan, 3072, 768, 2},     {MatrixScale::jordan, 768, 3072, 1},
      {MatrixScale::jordan, 9, 1, 3},          {MatrixScale::jordan, 5, 5, 1},
      {MatrixScale::adamw, 1600, 900, 8},      {MatrixScale::adamw, 900, 1600, 8},
      {MatrixScale::adamw, 1, 1, 0.2},         {MatrixScale::spectral, 3072, 768, 2},
      {MatrixScale::spectral, 768, 3072, 0.5}, {MatrixScale::spectral, 7, 7, 1},
  };
  for (const auto& [scale, out, in, factor] : by_hand)
    EXPECT_DOUBLE_EQ(scale_of(scale, out, in), factor)
        << value_names<MatrixScale>[static_cast<std::size_t>(scale)] << " of " << out << " x "
        << in;
}

TEST(MatrixRule, NamesItsArrays) {
  using Names = std::vector<std::string_view>;
  const MatrixRule muon = matrix_rule::Muon{}, shampoo = matrix_rule::Shampoo{};
  EXPECT_EQ(elementwise_arrays(muon), Names{"momentum"});
  EXPECT_EQ(elementwise_arrays(shampoo), Names{"momentum"});
  EXPECT_TRUE(squares_of(muon).empty());

  Names squares;
  std::vector<MatrixSide> sides;
  for (const auto& [name, side] : squares_of(shampoo)) {
    squares.push_back(name);
    sides.push_back(side);
  }
  EXPECT_EQ(squares, (Names{"left", "left_root", "right", "right_root"}));
  EXPECT_EQ(sides, (std::vector{MatrixSide::rows, MatrixSide::rows, MatrixSide::columns,
                                MatrixSide::columns}));
}

// Muon's momentum is that of gradients, Shampoo's that of steps.
TEST(MatrixRule, AppliesMomentumBeforeOrAfterTheStep) {
  const MatrixRule muon = matrix_rule::Muon{.momentum = 0.8, .nesterov = false},
                   shampoo = matrix_rule::Shampoo{.momentum = 0.7, .nesterov = true};
  EXPECT_TRUE(std::holds_alternative<rule::Sgd>(after(muon)));
  EXPECT_TRUE(std::holds_alternative<rule::Sgd>(before(shampoo)));
  const auto first = std::get<rule::Momentum>(before(muon)),
             last = std::get<rule::Momentum>(after(shampoo));
  EXPECT_EQ(first.momentum, 0.8);
  EXPECT_FALSE(first.nesterov);
  EXPECT_EQ(last.momentum, 0.7);
  EXPECT_TRUE(last.nesterov);
}

}  // namespace
}  // namespace trireme
