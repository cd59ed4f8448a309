// The arrays of state of each segment, and the place of square arrays.
#include "lib/shard/optimizer_rules.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "lib/base/array_names.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const UpdateRule adamw = rule::AdamW{};

OptimizerRules rules_with(MatrixRule matrices, double average_decay = 0) {
  OptimizerRules rules{.elements = adamw, .average_decay = average_decay};
  rules.matrices = MatrixOptimizer{.rule = matrices};
  return rules;
}

struct Segments {
  ModelSpec spec = make_spec(test::tiny_llama());
  Layout layout;
  const Segment *elements = nullptr, *matrices = nullptr;  // of block 0

  explicit Segments(std::int64_t ranks) {
    LayoutInput in{all_units(spec), ranks, {}, {}};
    in.as_matrices = updated_as_matrices(spec, {});
    layout = make_layout(spec, in);
    for (const auto i : layout.of_unit[spec.blocks[0].unit.index()])
      (layout.segments[i].as_matrices ? matrices : elements) = &layout.segments[i];
  }
};

TEST(OptimizerRules, ASegmentHasTheArraysOfItsRule) {
  const Segments s(2);
  const auto muon = rules_with(matrix_rule::Muon{});
  EXPECT_THAT(state_arrays(muon, s.spec, *s.elements, 2).elementwise,
              ElementsAre("moment1", "moment2"));
  EXPECT_THAT(state_arrays(muon, s.spec, *s.matrices, 2).elementwise, ElementsAre("momentum"));
  for (const auto* segment : {s.elements, s.matrices})
    EXPECT_THAT(state_arrays(muon, s.spec, *segment, 2).squares, IsEmpty());
  EXPECT_THAT(all_arrays(muon), ElementsAre("moment1", "moment2", "momentum"));

  const auto shampoo = rules_with(matrix_rule::Shampoo{});
  EXPECT_THAT(state_arrays(shampoo, s.spec, *s.matrices, 2).elementwise, ElementsAre("momentum"));
  EXPECT_THAT(state_arrays(shampoo, s.spec, *s.elements, 2).squares, IsEmpty());
  EXPECT_THAT(all_arrays(shampoo), ElementsAre("moment1", "moment2", "momentum", "left",
                                               "left_root", "right", "right_root"));
}

// Names that both rules have are one array.
TEST(OptimizerRules, ANameOccursOnce) {
  auto rules = rules_with(matrix_rule::Muon{});
  rules.elements = rule::Momentum{};
  EXPECT_THAT(all_arrays(rules), ElementsAre("momentum"));
}

TEST(OptimizerRules, AveragesAreTheLastArray) {
  const Segments s(2);
  const std::string average(average_array);
  const auto muon = rules_with(matrix_rule::Muon{}, 0.9);
  EXPECT_THAT(state_arrays(muon, s.spec, *s.elements, 2).elementwise,
              ElementsAre("moment1", "moment2", average));
  EXPECT_THAT(state_arrays(muon, s.spec, *s.matrices, 2).elementwise,
              ElementsAre("momentum", average));
  EXPECT_THAT(all_arrays(muon), ElementsAre("moment1", "moment2", "momentum", average));
  EXPECT_EQ(all_arrays(rules_with(matrix_rule::Shampoo{}, 0.9)).back(), average);
}

// 24 x 24 of q, and 8 x 8 of k and v each, are the squares of qkv's rows; three of 24 x 24 those of
// its columns.
TEST(OptimizerRules, SquareArraysHaveTheSquaresOfAllMatrices) {
  for (const std::int64_t ranks : {1, 2, 5}) {
    const Segments s(ranks);
    const auto arrays =
        state_arrays(rules_with(matrix_rule::Shampoo{}), s.spec, *s.matrices, ranks);
    ASSERT_EQ(arrays.squares.size(), 4U);
    for (const auto& square : arrays.squares) {
      const bool rows = square.array.side == MatrixSide::rows;
      EXPECT_EQ(square.elements % (ranks * Layout::alignment), 0);
      std::int64_t end = 0;
      ASSERT_EQ(square.slots.size(), s.matrices->slots.size());
      for (std::size_t k = 0; k < square.slots.size(); ++k) {
        const auto& slot = square.slots[k];
        EXPECT_EQ(slot.param, s.matrices->slots[k].param);
        EXPECT_GE(slot.begin, end);
        EXPECT_EQ(slot.begin % Layout::alignment, 0);
        end = slot.begin + slot.count;
        const auto& block = s.spec.blocks[0];
        const auto expected = slot.param == block.qkv ? (rows ? 24 * 24 + 2 * 8 * 8 : 3 * 24 * 24)
                              : slot.param == block.ffn_in  ? (rows ? 2 * 20 * 20 : 2 * 24 * 24)
                              : slot.param == block.ffn_out ? (rows ? 24 * 24 : 20 * 20)
                                                            : 24 * 24;  // of the projection
        EXPECT_EQ(slot.count, expected);
      }
      EXPECT_GE(square.elements, end);
      EXPECT_LT(square.elements, end + ranks * Layout::alignment + Layout::alignment);
    }
    EXPECT_EQ(arrays.squares[0].array.name, "left");
    EXPECT_EQ(arrays.squares[2].array.side, MatrixSide::columns);
  }
}

// Parameters of one rule are a segment of their own, so that their arrays have one length.
TEST(OptimizerRules, NoSegmentHasBothRules) {
  const Segments s(3);
  const auto whole = updated_as_matrices(s.spec, {});
  for (const auto& segment : s.layout.segments)
    for (const auto& slot : segment.slots)
      EXPECT_EQ(segment.as_matrices, whole[slot.param.index()] != 0) << segment.name;
  ASSERT_TRUE(s.elements && s.matrices);
}

}  // namespace
}  // namespace trireme
