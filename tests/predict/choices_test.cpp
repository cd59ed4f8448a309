#include "lib/predict/choices.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/dry.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

static PlanInput input() {
  PlanInput in;
  in.setup.model = test::tiny_llama();
  in.setup.model.max_context = 12;
  in.train = {.batch = 24, .microbatch = 1, .steps = 1};
  return in;
}

static std::set<int> seqs_of(const PlanInput& in) {
  std::set<int> all;
  for (const auto& c : choices_of(in, 12, 8)) all.insert(c.grid.seq);
  return all;
}

// A rank's tokens of a sample are whole chunks.
TEST(Choices, AreThoseThatAnInvariantRunAccepts) {
  auto in = input();
  EXPECT_EQ(seqs_of(in), (std::set{1, 2, 3, 4, 6, 12}));
  in.setup.exact_chunk = 4;
  EXPECT_EQ(seqs_of(in), (std::set{1, 3}));
  for (const auto& c : choices_of(in, 12, 8)) {
    EXPECT_TRUE(accepts(in, c));
    EXPECT_NO_THROW(plan_rank(input_of(in, c), roomy_target(), 0)) << overrides_of(c);
  }
}

// Beyond as many ranks as have a head each, as many groups as are asked for.
TEST(Choices, HaveAsManyGroupsOfSeqAsAreAskedFor) {
  auto in = input();
  in.setup.model.heads = in.setup.model.kv_heads = 2;
  const auto seqs = [&](int groups) {
    std::set<int> all;
    for (const auto& c : choices_of(in, 12, groups)) all.insert(c.grid.seq);
    return all;
  };
  EXPECT_EQ(seqs(1), (std::set{1, 2}));
  EXPECT_EQ(seqs(2), (std::set{1, 2, 4}));
  EXPECT_EQ(seqs(8), (std::set{1, 2, 3, 4, 6, 12}));
}

// Which of a microbatch's losses can be counted, an evaluation knows by their number.
TEST(Choices, OfAnInvariantRunHaveMicrobatchesThatAnEvaluationCounts) {
  auto in = input();
  in.setup.model.max_context = 1 << 18;
  in.setup.exact_chunk = 4;
  const auto largest = [&] {
    std::int64_t most = 0;
    for (const auto& c : choices_of(in, 1, 8)) most = std::max(most, c.microbatch);
    return most;
  };
  EXPECT_EQ(largest(), 4);
  in.evaluation = PlanEvaluation::left_out;
  EXPECT_EQ(largest(), 24);
}

}  // namespace trireme
