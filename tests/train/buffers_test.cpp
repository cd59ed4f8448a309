// What 1F1B holds, read off the account of each stage's real step: min(stages - stage,
// microbatches) inputs with what was saved for them, one tensor arriving, and one leaving in each
// direction.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/arena.hpp"
#include "kernels/open/open.hpp"
#include "lib/plan/plan.hpp"

namespace trireme {
namespace {

constexpr int most_stages = 4, most_microbatches = 8;
constexpr std::int64_t samples = 2, tokens = 48, width = 32;  // of a microbatch

RankPlan plan_stage(int stages, int microbatches, int stage, Recompute recompute) {
  PlanInput in;
  auto& m = in.setup.model;
  m.layers = 4;
  m.width = width;
  m.heads = 4;
  m.vocab = 64;
  m.max_context = tokens;
  m = completed(m);
  in.setup.recompute = recompute;
  in.grid = {stages, 1, 1};
  in.train.microbatch = samples;
  in.train.batch = samples * microbatches;
  in.evaluation = PlanEvaluation::left_out;
  return plan_rank(in, dry_target({"host", 1, false}), stage);
}

std::size_t peak(const RankPlan& p, MemoryKind k) {
  return p.account.peak[static_cast<std::size_t>(k)];
}

std::size_t block(std::int64_t bytes) {
  const auto n = static_cast<std::size_t>(bytes);
  return (n + Arena::granule - 1) / Arena::granule * Arena::granule;
}

const auto crossing = block(samples * tokens * width * 4), ids = block(samples * tokens * 4),
           targets = ids, numbers = block(samples * 8);

// Of every stage of up to four: plans with one microbatch and more.
template <class Body>
void for_stages(Recompute recompute, const Body& body) {
  for (int stages = 1; stages <= most_stages; ++stages)
    for (int stage = 0; stage < stages; ++stage) {
      std::vector<RankPlan> plans(1);
      for (int m = 1; m <= most_microbatches; ++m)
        plans.push_back(plan_stage(stages, m, stage, recompute));
      SCOPED_TRACE(testing::Message() << "stage " << stage << " of " << stages);
      body(stages, stage, plans);
    }
}

std::size_t held(int stages, int stage, int microbatches) {
  return static_cast<std::size_t>(std::min(stages - stage, microbatches));
}

class BuffersOf : public testing::TestWithParam<Recompute> {};
INSTANTIATE_TEST_SUITE_P(Recompute, BuffersOf, testing::Values(Recompute::none, Recompute::block),
                         [](const auto& p) {
                           return p.param == Recompute::none ? "none" : "block";
                         });

// An input is kept with the numbers of its samples until its backward has run. Targets go after
// forward. A gradient arrives while all inputs are held; the one that goes up is made by backward,
// transient, and its place is taken again only when it has left.
TEST_P(BuffersOf, InputsAndOneThatArrives) {
  for_stages(GetParam(), [](int stages, int stage, const std::vector<RankPlan>& plans) {
    for (int m = 1; m <= most_microbatches; ++m) {
      const bool first = stage == 0, last = stage == stages - 1;
      const auto inputs = held(stages, stage, m);
      EXPECT_EQ(peak(plans[static_cast<std::size_t>(m)], MemoryKind::boundary),
                inputs * ((first ? ids : crossing) + numbers) + (last ? targets : crossing))
          << m << " microbatches";
    }
  });
}

// The same again for each input held; and the output that still leaves while the next is made.
TEST(Buffers, WhatWasSavedForEachInput) {
  for_stages(Recompute::none, [](int stages, int stage, const std::vector<RankPlan>& plans) {
    const auto saved = [&](int m) {
      return peak(plans[static_cast<std::size_t>(m)], MemoryKind::saved);
    };
    const bool last = stage == stages - 1;
    const auto leaving = last ? 0 : crossing;
    const auto each = last ? 0 : saved(2) - saved(1) - leaving;
    if (!last) {
      EXPECT_GT(each, 0U);
    }
    for (int m = 2; m <= most_microbatches; ++m)
      EXPECT_EQ(saved(m), saved(1) + (held(stages, stage, m) - 1) * each + leaving)
          << m << " microbatches";
  });
}

// Once forwards and backwards alternate, a further microbatch costs nothing but its loss.
TEST_P(BuffersOf, DoNotGrowWithMicrobatches) {
  for_stages(GetParam(), [](int stages, int stage, const std::vector<RankPlan>& plans) {
    const auto loss = stage == stages - 1 ? block(8) : 0;
    for (int m = stages - stage + 1; m < most_microbatches; ++m)
      EXPECT_EQ(plans[static_cast<std::size_t>(m + 1)].account.peak_all,
                plans[static_cast<std::size_t>(m)].account.peak_all + loss)
          << m << " microbatches";
  });
}

}  // namespace
}  // namespace trireme
