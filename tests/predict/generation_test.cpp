#include "lib/predict/generation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/dry.hpp"
#include "tests/support/machine.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

PlanInput input() {
  PlanInput in;
  in.setup.model = test::tiny_llama();
  in.train = {.batch = 2, .microbatch = 1, .steps = 1};
  return in;
}

GenerationTimes times(const MachineModel& m, std::int64_t sequences) {
  return predict_generation(input(), roomy_target(m.backend == "host"), m, sequences);
}

// One token reads every weight once, however many sequences there are. Nothing else costs anything
// on this machine.
TEST(Generation, AShortTokenReadsTheWeights) {
  auto m = test::plain_machine("cuda");
  m.launch = 1e-15;
  for (auto& p : m.products) p.flops = {1e30};
  for (auto& a : m.attention) a.flops = {1e30};
  const auto spec = make_spec(input().setup.model);
  const auto one = times(m, 1), four = times(m, 4);
  const double read = 4.0 * static_cast<double>(spec.parameter_count()) / *m.memory_bandwidth;
  const double table = 4.0 * static_cast<double>(spec.config.vocab * spec.config.width) /
                       *m.memory_bandwidth;  // a row of which is read if it is not tied
  EXPECT_GT(one.token, read - table);
  EXPECT_GT(four.token, one.token);
  EXPECT_LT(four.token, 4 * one.token);
  EXPECT_GT(one.prefill, one.token);
  EXPECT_EQ(four.sequences, 4);
  EXPECT_DOUBLE_EQ(four.prefill, one.prefill);  // of one sequence
}

// The host launches each operation, whatever its size.
TEST(Generation, AHostThatLaunchesSlowlyIsSeen) {
  auto m = test::plain_machine("cuda");
  const double before = times(m, 1).token;
  m.launch = *m.launch + 1e-3;
  EXPECT_GT(times(m, 1).token, before + 1e-2);
}

// The context of the samples, which may be shorter than that of the model.
TEST(Generation, PromptsFillTheContextOfTheDeck) {
  const auto m = test::plain_machine("cuda");
  auto in = input();
  in.setup.context = in.setup.model.max_context / 2;
  EXPECT_LT(predict_generation(in, roomy_target(false), m, 1).prefill, times(m, 1).prefill);
}

TEST(Generation, OnHostsToo) {
  EXPECT_GT(times(test::plain_machine("host"), 2).token, 0);
}

TEST(Generation, OfSeveralRanksIsRefused) {
  auto in = input();
  in.grid = {1, 2, 1};
  EXPECT_THAT(message_of([&] {
                predict_generation(in, roomy_target(false), test::plain_machine("cuda"), 1);
              }),
              testing::HasSubstr("--ranks 1"));
}

}  // namespace
}  // namespace trireme
