#include "lib/shard/layout.hpp"
#include "lib/base/pattern.hpp"

#include <gtest/gtest.h>

#include "lib/shard/matrices.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

// Slots are disjoint, aligned, in bounds; every parameter has one; the layout says whether it
// decays.
TEST(Layout, CoversEveryParameterOnce) {
  for (const auto& config : {test::tiny_gpt2(), test::tiny_llama()})
    for (const std::int64_t group : {1, 3, 8}) {
      const auto spec = make_spec(config);
      const auto layout = make_layout(spec, {all_units(spec), group, {}, {}});

      std::vector<int> seen(spec.params.size());
      for (const auto& segment : layout.segments) {
        std::int64_t end = 0;
        for (const auto& slot : segment.slots) {
          ++seen[slot.param.index()];
          EXPECT_EQ(slot.begin % Layout::alignment, 0);
          EXPECT_GE(slot.begin, end);
          end = slot.begin + slot.count;
          EXPECT_EQ(slot.count, spec.params[slot.param.index()].shape.count());
          EXPECT_EQ(spec.params[slot.param.index()].decay, slot.decays);
        }
        EXPECT_GE(segment.elements, end);
        EXPECT_EQ(segment.elements % group, 0);
      }
      EXPECT_EQ(seen, std::vector<int>(spec.params.size(), 1));
    }
}

TEST(Layout, PatternsTakeDecayAway) {
  const auto spec = make_spec(test::tiny_gpt2());
  const auto layout =
      make_layout(spec, {all_units(spec), 1, {"positions.*", "blocks.?.qkv.weight"}, {}});

  const auto decayed = [&](ParamId p) {
    const auto& w = *layout.of_param[p.index()];
    return w.slot.decays;
  };
  EXPECT_FALSE(decayed(spec.positions));
  EXPECT_FALSE(decayed(spec.blocks[1].qkv));
  EXPECT_TRUE(decayed(spec.blocks[1].projection));
}

// A unit needs one message for all of its parameters, whatever rule updates them.
TEST(Layout, MatricesShareTheSegmentOfTheirUnit) {
  for (const auto& config : {test::tiny_gpt2(), test::tiny_llama(), test::tiny_mixture()})
    for (const std::vector<std::string>& no_decay : {{}, std::vector<std::string>{"*.qkv.weight"}})
      for (const std::int64_t group : {1, 3, 8}) {
        const auto spec = make_spec(config);
        LayoutInput in{all_units(spec), group, no_decay, {}};
        const auto plain = make_layout(spec, in);
        in.as_matrices = updated_as_matrices(spec, {});
        const auto layout = make_layout(spec, in);

        EXPECT_EQ(layout.of_unit, plain.of_unit);
        for (std::size_t i = 0; i < layout.segments.size(); ++i) {
          const auto& segment = layout.segments[i];
          EXPECT_EQ(segment.slots.size(), plain.segments[i].slots.size());
          std::int64_t end = 0;
          bool matrices = false;
          for (const auto& slot : segment.slots) {
            const bool matrix = slot.begin >= segment.matrices_begin;
            EXPECT_EQ(matrix, in.as_matrices[slot.param.index()] != 0);
            matrices = matrices || matrix;
            EXPECT_GE(slot.begin, end);
            end = slot.begin + slot.count;
            EXPECT_LE(end, matrix ? segment.elements : segment.matrices_begin);
            const auto& plain_where = *plain.of_param[slot.param.index()];
            EXPECT_EQ(slot.decays, plain_where.slot.decays);
          }
          EXPECT_EQ(segment.matrices_begin < segment.elements, matrices);
          EXPECT_EQ(segment.matrices_begin % Layout::alignment, 0);
        }
      }
}

TEST(Layout, WhatFreezesTogetherIsOneSegment) {
  const auto spec = make_spec(test::tiny_gpt2());

  const auto layout =
      make_layout(spec, {all_units(spec), 2, {}, {"blocks.0.*", "*.attention_norm.*"}});

  EXPECT_EQ(layout.of_unit[spec.blocks[0].unit.index()].size(), 2U);
  EXPECT_EQ(layout.of_unit[spec.blocks[1].unit.index()].size(), 2U);
  EXPECT_EQ(layout.of_unit[spec.table_unit.index()].size(), 1U);
  for (const auto& segment : layout.segments)
    for (const auto& slot : segment.slots) {
      const auto& name = spec.params[slot.param.index()].name;
      const auto& first = spec.params[segment.slots[0].param.index()].name;
      EXPECT_EQ(matches("*.attention_norm.*", name), matches("*.attention_norm.*", first));
    }
}

// 5 experts over 3 ranks: segments of their own, of which each rank has its experts alone; all else
// is as without.
TEST(Layout, ExpertsAreSharedOut) {
  const auto spec = make_spec(test::tiny_mixture());
  const auto& block = spec.blocks[1];
  std::vector<int> seen(spec.params.size());
  for (int rank = 0; rank < 3; ++rank) {
    const auto layout = make_layout(spec, {all_units(spec), 6, {}, {}, rank, 3});
    for (std::size_t p = 0; p < spec.params.size(); ++p) {
      const auto& where = layout.of_param[p];
      seen[p] += where.has_value();
      if (!where) continue;
      EXPECT_EQ(layout.segments[where->segment].of_experts, spec.params[p].expert >= 0);
    }
    EXPECT_EQ(layout.of_unit[block.unit.index()].size(), 2U);
    EXPECT_EQ(layout.of_unit[spec.blocks[0].unit.index()].size(), 1U);
    EXPECT_EQ(layout.of_param[block.expert_in[2].index()].has_value(), rank == 1);
  }
  for (std::size_t p = 0; p < seen.size(); ++p)
    EXPECT_EQ(seen[p], spec.params[p].expert >= 0 ? 1 : 3) << spec.params[p].name;
}

// A router's bias is no weight of a product: it stays in the wide type.
TEST(Layout, WhatLearnsFromLoadsIsASegmentOfItsOwn) {
  const auto spec = make_spec(test::tiny_sigmoid_mixture());
  const auto layout = make_layout(spec, {all_units(spec), 1, {}, {}});

  const auto& where = *layout.of_param[spec.blocks[0].router_bias.index()];
  const auto& segment = layout.segments[where.segment];

  EXPECT_EQ(segment.slots.size(), 1U);
  EXPECT_EQ(segment.learns_from, LearnsFrom::loads);
  EXPECT_EQ(layout.of_unit[spec.blocks[0].unit.index()].size(), 2U);
}

TEST(Layout, LeavesOutUnitsOfOtherStages) {
  const auto spec = make_spec(test::tiny_gpt2());

  const auto layout = make_layout(spec, {{spec.blocks[1].unit}, 1, {}, {}});

  EXPECT_EQ(layout.segments.size(), 1U);
  EXPECT_TRUE(layout.of_param[spec.blocks[1].qkv.index()].has_value());
  EXPECT_FALSE(layout.of_param[spec.blocks[0].qkv.index()].has_value());
}

// Shards of all ranks cover a segment once, whatever the group.
TEST(Layout, ShardsCoverASegment) {
  const auto spec = make_spec(test::tiny_llama());
  const auto layout = make_layout(spec, {all_units(spec), 6, {}, {}});
  for (const auto& segment : layout.segments)
    for (const std::int64_t group : {1, 2, 3, 6}) {
      std::int64_t end = 0;
      for (std::int64_t r = 0; r < group; ++r) {
        const auto shard = shard_range(segment, r, group);
        EXPECT_EQ(shard.begin, end);
        end = shard.end;
      }
      EXPECT_EQ(end, segment.elements);
    }
}

TEST(Layout, APatternThatMatchesNothingIsAnError) {
  const auto spec = make_spec(test::tiny_gpt2());

  EXPECT_THROW(make_layout(spec, {all_units(spec), 1, {"block.*"}, {}}), Error);
  EXPECT_THROW(make_layout(spec, {all_units(spec), 1, {}, {"block.*"}}), Error);
}

}  // namespace trireme
