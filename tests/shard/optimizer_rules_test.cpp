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
using testing::Pair;

const UpdateRule adamw = rule::AdamW{};

OptimizerRules rules_with(MatrixRule matrices, double average_decay = 0) {
  OptimizerRules rules{.elements = adamw, .average_decay = average_decay};
  rules.matrices = MatrixOptimizer{.rule = matrices};
  return rules;
}

// The names of a segment's element arrays, with their ranges.
std::vector<std::pair<std::string, Range>> ranges(const StateArrays& arrays) {
  std::vector<std::pair<std::string, Range>> all;
  for (const auto& a : arrays.elementwise) all.emplace_back(a.name, a.elements);
  return all;
}

// Segments of a model: that of block 0, which both rules update, and that of the embedding.
struct Segments {
  ModelSpec spec = make_spec(test::tiny_llama());
  Layout layout;
  const Segment *block = nullptr, *table = nullptr;
  Range matrices, others;  // of the block

  explicit Segments(std::int64_t ranks) {
    LayoutInput in{all_units(spec), ranks, {}, {}};
    in.as_matrices = updated_as_matrices(spec, {});
    layout = make_layout(spec, in);
    block = &layout.segments[layout.of_unit[spec.blocks[0].unit.index()].at(0)];
    table = &layout.segments[layout.of_unit[spec.table_unit.index()].at(0)];
    matrices = {block->matrices_begin, block->elements};
    others = {0, block->matrices_begin};
  }
};

TEST(OptimizerRules, AnArrayHasTheElementsOfItsRule) {
  const Segments s(2);
  const Range table{0, s.table->elements};
  const auto muon = rules_with(matrix_rule::Muon{});
  EXPECT_THAT(ranges(state_arrays(muon, s.spec, *s.block, 2)),
              ElementsAre(Pair("moment1", s.others), Pair("moment2", s.others),
                          Pair("momentum", s.matrices)));
  EXPECT_THAT(ranges(state_arrays(muon, s.spec, *s.table, 2)),
              ElementsAre(Pair("moment1", table), Pair("moment2", table)));
  for (const auto* segment : {s.block, s.table})
    EXPECT_THAT(state_arrays(muon, s.spec, *segment, 2).squares, IsEmpty());
  EXPECT_THAT(all_arrays(muon), ElementsAre("moment1", "moment2", "momentum"));

  const auto shampoo = rules_with(matrix_rule::Shampoo{});
  EXPECT_THAT(ranges(state_arrays(shampoo, s.spec, *s.block, 2)),
              ElementsAre(Pair("moment1", s.others), Pair("moment2", s.others),
                          Pair("momentum", s.matrices)));
  EXPECT_THAT(state_arrays(shampoo, s.spec, *s.table, 2).squares, IsEmpty());
  EXPECT_THAT(all_arrays(shampoo), ElementsAre("moment1", "moment2", "momentum", "left",
                                               "left_root", "right", "right_root"));
}

// No rank holds more of an array, and one holds as much.
TEST(OptimizerRules, MemoryIsThatOfTheRankThatHoldsMost) {
  for (const std::int64_t ranks : {1, 2, 5, 64}) {
    const Segments s(ranks);
    const auto arrays = state_arrays(rules_with(matrix_rule::Muon{}, 0.9), s.spec, *s.block, ranks);
    for (const auto& a : arrays.elementwise) {
      std::int64_t most = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        most = std::max(most, intersection(a.elements, shard_range(*s.block, rank, ranks)).count());
      EXPECT_EQ(a.most_held(s.block->elements / ranks), most) << a.name << " on " << ranks;
    }
  }
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
  EXPECT_THAT(
      ranges(state_arrays(muon, s.spec, *s.block, 2)),
      ElementsAre(Pair("moment1", s.others), Pair("moment2", s.others),
                  Pair("momentum", s.matrices), Pair(average, Range{0, s.block->elements})));
  EXPECT_THAT(all_arrays(muon), ElementsAre("moment1", "moment2", "momentum", average));
  EXPECT_EQ(all_arrays(rules_with(matrix_rule::Shampoo{}, 0.9)).back(), average);
}

// 24 x 24 of q, and 8 x 8 of k and v each, are the squares of qkv's rows; three of 24 x 24 those of
// its columns.
TEST(OptimizerRules, SquareArraysHaveTheSquaresOfAllMatrices) {
  for (const std::int64_t ranks : {1, 2, 5}) {
    const Segments s(ranks);
    const auto arrays = state_arrays(rules_with(matrix_rule::Shampoo{}), s.spec, *s.block, ranks);
    ASSERT_EQ(arrays.squares.size(), 4U);
    for (const auto& square : arrays.squares) {
      const bool rows = square.array.side == MatrixSide::rows;
      EXPECT_EQ(square.elements % (ranks * Layout::alignment), 0);
      std::int64_t end = 0;
      ASSERT_EQ(square.slots.size(), 4U);  // the norms have none
      for (std::size_t k = 0; k < square.slots.size(); ++k) {
        const auto& slot = square.slots[k];
        EXPECT_EQ(slot.param, s.block->slots[s.block->slots.size() - 4 + k].param);
        EXPECT_EQ(square.slot_of(slot.param), &slot);
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
      EXPECT_EQ(square.slot_of(s.spec.blocks[0].attention_norm), nullptr);
      EXPECT_GE(square.elements, end);
      EXPECT_LT(square.elements, end + ranks * Layout::alignment + Layout::alignment);
    }
    EXPECT_EQ(arrays.squares[0].array.name, "left");
    EXPECT_EQ(arrays.squares[2].array.side, MatrixSide::columns);
  }
}

}  // namespace
}  // namespace trireme
