// What a stage runs, and what it borrows for it.
#include "lib/train/stage.hpp"
#include "lib/base/pattern.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "kernels/ref/ref.hpp"
#include "lib/train/trainer.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

class StageParts : public testing::Test {
 protected:
  static ModelConfig four_blocks() {
    auto c = test::tiny_gpt2();
    c.layers = 4;
    return c;
  }
  // By ParamId: all but what the pattern names.
  std::vector<std::uint8_t> all_but(std::string_view pattern) const {
    std::vector<std::uint8_t> mask;
    for (const auto& p : model.spec().params) mask.push_back(!matches(pattern, p.name));
    return mask;
  }
  std::vector<std::uint8_t> all_but(std::initializer_list<std::string_view> patterns) const {
    auto mask = all_but("");
    for (const auto pattern : patterns) {
      const auto more = all_but(pattern);
      for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = mask[i] && more[i];
    }
    return mask;
  }
  PartRange whole() const { return {0, model.parts().size()}; }
  std::vector<Visit> visits_of(const Program& program, PartRange range,
                               const BackwardParts& backward) const {
    const std::array chunks{Chunk(model, range, backward)};
    return visits(program, chunks);
  }

  Ref backend;
  Model model{backend, make_spec(four_blocks()), {.compute = DType::f64}};
};

TEST_F(StageParts, AreAllOfTheModelInOrder) {
  const std::array<std::int64_t, 3> blocks{1, 1, 2};
  std::size_t end = 0;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    const auto r = stage_parts(blocks, s);
    EXPECT_EQ(r.begin, end);
    end = r.end;
  }
  EXPECT_EQ(end, model.parts().size());
}

// Embedding and two blocks are frozen: they run forward alone, and a table that the head uses too
// is trained by nobody.
TEST_F(StageParts, AFrozenPrefixHasNoBackward) {
  const auto mask = all_but({"embedding.*", "positions.*", "blocks.0.*", "blocks.1.*"});
  const auto backward = backward_parts(model, whole(), mask, false);

  const auto seen = visits_of(training_program({.stages = 1}, 1, 0), whole(), backward);

  std::vector<std::string_view> needed;
  for (std::size_t i = 0; i < backward.needed.size(); ++i)
    if (backward.needed[i]) needed.push_back(model.parts()[i]->name());
  EXPECT_EQ(needed, (std::vector<std::string_view>{"block 2", "block 3", "final_norm", "head"}));
  // Seven parts forward, four of them backward.
  EXPECT_EQ(seen.size(), 11U);
  for (std::size_t v = 7; v < seen.size(); ++v)
    for (const auto& b : seen[v].units) {
      EXPECT_NE(b.unit, model.spec().blocks[0].unit);
      EXPECT_NE(b.unit, model.spec().blocks[1].unit);
    }
}

// What lies above a trained part needs backward though it is frozen itself, without gradients.
TEST_F(StageParts, AFrozenPartAboveATrainedOnePassesTheGradientOn) {
  const auto mask = all_but({"blocks.2.*", "blocks.3.*", "final_norm.*"});
  const auto backward = backward_parts(model, whole(), mask, false);

  EXPECT_EQ(std::ranges::count(backward.needed, 1), 7);
  for (const auto& v : visits_of(training_program({.stages = 1}, 1, 0), whole(), backward))
    for (const auto& b : v.units)
      if (b.unit == model.spec().blocks[3].unit) {
        EXPECT_FALSE(v.gradients);
      }
}

TEST_F(StageParts, AStageThatTheOneBeforeWaitsForRunsAllBackward) {
  const auto mask = all_but("*");

  EXPECT_EQ(std::ranges::count(backward_parts(model, {2, 4}, mask, true).needed, 1), 2);
  EXPECT_EQ(std::ranges::count(backward_parts(model, {2, 4}, mask, false).needed, 1), 0);
}

// Forward and backward of the last block meet at the head: they share a gather, and so do the first
// block's backward and its forward of the next microbatch on a stage without an embedding.
TEST_F(StageParts, BorrowsInARowShareAGather) {
  const PartRange middle{2, 4};
  const auto backward = backward_parts(model, middle, all_but(""), true);
  const auto program = training_program({.stages = 1}, 2, 0);
  const auto seen = visits_of(program, middle, backward);

  const auto each = make_borrow_plan(seen, {.gather_every = ZeroCadence::microbatch});
  const auto once = make_borrow_plan(seen, {.gather_every = ZeroCadence::step});

  const auto a = model.spec().blocks[1].unit, b = model.spec().blocks[2].unit;
  // a b | b a | a b | b a
  EXPECT_EQ(each.gathers,
            (std::vector<GatherStep>{{a, 0, 1}, {b, 0, 2}, {a, 0, 2}, {b, 1, 2}, {a, 1, 1}}));
  EXPECT_EQ(each.reads, (std::vector<std::size_t>{0, 1, 1, 2, 2, 3, 3, 4}));
  EXPECT_EQ(once.gathers, (std::vector<GatherStep>{{a, 0, 4, true}, {b, 0, 4, true}}));
  EXPECT_EQ(once.reads, (std::vector<std::size_t>{0, 1, 1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(each.gradients, once.gradients);
  EXPECT_EQ(each.gradients.size(), 2U);
  EXPECT_EQ(each.gradients[0].borrows, 2);
}

// The first half of backward reads what it read, the second adds what it added, and reads nothing;
// the head has added in forward.
TEST_F(StageParts, WeightGradientsReadNoWeights) {
  const auto backward = backward_parts(model, whole(), all_but("blocks.1.*"), false);
  const auto together = visits_of(training_program({.stages = 2}, 2, 1), whole(), backward);
  const auto halves =
      visits_of(training_program({ScheduleKind::zero_bubble, 2, 1, WeightGradients::at_once}, 2, 1),
                whole(), backward);

  const auto visited = [&](const std::vector<Visit>& all, bool Visit::*what) {
    std::vector<std::pair<int, int>> units;  // microbatch, first unit
    for (const auto& v : all)
      if (v.*what) units.emplace_back(v.microbatch, v.units[0].unit.index());
    return units;
  };
  EXPECT_EQ(visited(halves, &Visit::weights), visited(together, &Visit::weights));
  EXPECT_EQ(visited(halves, &Visit::gradients), visited(together, &Visit::gradients));
  int both = 0;
  for (const auto& v : halves) both += v.weights && v.gradients;
  EXPECT_EQ(both, 2);  // the head's forward
}

// Gathers of a half are not made again for weight gradients, with any cadence.
TEST_F(StageParts, SchedulesOfHalvesGatherAsOften) {
  const PartRange middle{2, 4};
  const auto backward = backward_parts(model, middle, all_but(""), true);
  for (const auto cadence : {ZeroCadence::microbatch, ZeroCadence::step}) {
    const ZeroPolicy policy{.gather_every = cadence};
    const auto together = make_borrow_plan(
        visits_of(training_program({.stages = 3}, 8, 1), middle, backward), policy);
    const auto halves = make_borrow_plan(
        visits_of(training_program({ScheduleKind::zero_bubble, 3}, 8, 1), middle, backward),
        policy);
    EXPECT_EQ(halves.gathers, together.gathers);
    EXPECT_EQ(halves.reads, together.reads);
    EXPECT_EQ(halves.gradients, together.gradients);
  }
}

// Of two stages of two chunks the first has blocks 0 and 2.
TEST_F(StageParts, ChunksAreVirtualStages) {
  const std::array<std::int64_t, 4> blocks{1, 1, 1, 1};
  const Pipeline pipe{ScheduleKind::interleaved, 2, 2};
  const auto parts = chunk_parts(blocks, pipe, 0);

  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(model.parts()[parts[0].begin]->name(), "embedding");
  EXPECT_EQ(parts[0].end, 2U);
  EXPECT_EQ(model.parts()[parts[1].begin]->name(), "block 2");
  EXPECT_EQ(parts[1].end, 4U);
  // Tied: the table is one unit of a stage that has both ends of the model.
  const auto all = chunk_parts(blocks, {ScheduleKind::interleaved, 1, 4}, 0);
  const auto units = units_of(model, all);
  EXPECT_EQ(std::ranges::count(units, model.spec().table_unit), 1);
  EXPECT_EQ(units.size(), model.spec().units.size());
}

}  // namespace trireme
