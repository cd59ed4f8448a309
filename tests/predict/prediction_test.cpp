// What is made of a simulated step, counted by hand.
#include "lib/predict/prediction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/predict/choices.hpp"
#include "lib/predict/search_text.hpp"
#include "lib/train/work.hpp"
#include "tests/support/machine.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

using testing::HasSubstr;

// A step of 2 seconds on two ranks.
TEST(Prediction, OfARun) {
  PlanInput in;
  in.setup.model = test::tiny_llama();
  in.train = {.batch = 8, .microbatch = 1, .steps = 10};
  in.grid = {1, 2, 1};
  auto m = test::plain_machine("host");
  Simulated step;
  step.kinds.resize(2);
  step.kinds[0].bubble = 1;
  step.seconds = 2;
  RunInput run;
  run.steps = 10;
  run.checkpoint = {};
  run.checkpoint.every_steps = 0;
  run.checkpoint.every_minutes = 0.1;  // three steps

  const auto p = predict(in, run, m, step, {4e8, 4e8});

  const double tokens = 8.0 * static_cast<double>(in.setup.model.max_context) / 2;
  EXPECT_DOUBLE_EQ(p.tokens_a_second, tokens);
  EXPECT_DOUBLE_EQ(
      p.utilisation,
      flops_of_token(make_spec(in.setup.model), in.setup.model.max_context) * tokens / 2e9);
  EXPECT_DOUBLE_EQ(p.bubble_share(), 0.25);
  EXPECT_EQ(p.checkpoints, 4);  // after 3, 6, 9 and 10 steps
  EXPECT_DOUBLE_EQ(p.run, 20);
  run.checkpoint.every_minutes = 0;
  run.checkpoint.every_steps = 3;
  run.decay_ends = {5, 6};
  EXPECT_EQ(predict(in, run, m, step, {4e8, 4e8}).checkpoints, 5);  // after 3, 5, 6, 9 and 10 steps
  run.decay_ends.clear();
  m.disk_write = 4e8;
  run.checkpoint.async = false;
  EXPECT_DOUBLE_EQ(predict(in, run, m, step, {4e8, 4e8}).run, 24);
  m.peak_tf32 = 4e9;
  run.tf32 = true;
  EXPECT_DOUBLE_EQ(predict(in, run, m, step, {4e8, 4e8}).utilisation, p.utilisation / 4);
}

// Copying reads and writes memory; the second copy crosses the link that two ranks share.
TEST(Prediction, OfMemoryCopies) {
  PlanInput in;
  in.setup.model = test::tiny_llama();
  in.train = {.batch = 8, .microbatch = 1, .steps = 10};
  in.grid = {1, 4, 1};
  auto m = test::plain_machine("host");
  m.ranks_of_node = 2;
  m.memory_bandwidth = 1e9;
  m.far.bandwidth = 1e8;
  m.far.shared_by = 2;
  Simulated step;
  step.kinds.resize(4);
  step.seconds = 2;
  RunInput run;
  run.steps = 10;
  run.checkpoint.every_steps = 0;
  SavedBytes saved{1e8, 1e8};
  const auto without = predict(in, run, m, step, saved);
  EXPECT_EQ(without.copy_wait, 0);
  EXPECT_EQ(without.copy_transfer, 0);
  run.checkpoint.memory_every = 3;
  const auto p = predict(in, run, m, step, saved);
  EXPECT_DOUBLE_EQ(p.copy_wait, 0.2);
  EXPECT_DOUBLE_EQ(p.copy_transfer, 2);
  EXPECT_DOUBLE_EQ(p.run, without.run + 3 * 0.2);
  EXPECT_THAT(prediction_text(p, m), HasSubstr("memory copy"));
  saved.changing = 2.5e7;  // the rest is frozen: each copy of it is made only once
  EXPECT_DOUBLE_EQ(predict(in, run, m, step, saved).copy_wait, 0.2);
  EXPECT_DOUBLE_EQ(predict(in, run, m, step, saved).copy_transfer, 0.5);
  in.grid = {1, 2, 1};  // one node
  EXPECT_EQ(predict(in, run, m, step, saved).copy_transfer, 0);
}

// cuDNN takes neither documents nor soft caps, and its rate is what this machine file has.
TEST(Prediction, SaysWhereAttentionIsSlower) {
  PlanInput in;
  in.setup.model = test::tiny_llama();
  in.setup.compute = DType::bf16;
  in.train = {.batch = 8, .microbatch = 1, .steps = 10};
  Simulated step;
  step.kinds.resize(1);
  step.seconds = 2;
  std::vector<AttentionRates> more;
  const auto slower = [&](const char* backend) {
    auto m = test::plain_machine(backend);
    m.attention.insert(m.attention.end(), more.begin(), more.end());
    const auto p = predict(in, {}, m, step, {});
    EXPECT_EQ(prediction_text(p, m).find("slower") != std::string::npos, p.slower_attention);
    return p.slower_attention;
  };
  EXPECT_FALSE(slower("cuda"));
  in.setup.attention = AttentionSpan::document;
  EXPECT_TRUE(slower("cuda"));
  EXPECT_FALSE(slower("host"));
  for (const auto direction : {Direction::forward, Direction::backward})
    more.push_back({DType::bf16, direction, 4, {1}, {1e9}, AttentionSpan::document});
  EXPECT_FALSE(slower("cuda"));
  in.setup.attention = AttentionSpan::causal;
  in.setup.model.attention_softcap = 50;
  EXPECT_TRUE(slower("cuda"));
  in.setup.compute = DType::f32;
  EXPECT_FALSE(slower("cuda"));
}

// The second kind of rank computes longest: 3 and 2 times an operation of 2 s.
TEST(Prediction, ListsTheSecondsOfOperations) {
  const auto m = test::plain_machine("host");
  const auto action = [](std::int32_t i) {
    return Action{.what = Action::What::compute, .queue = Queue::compute, .index = i};
  };
  Recording few, many;
  few.workloads = many.workloads = {{.name = "fill", .bytes = 2e9}, {.name = "norm", .bytes = 2e9}};
  few.actions = {action(0)};
  many.actions = {action(0), action(1), action(0), action(1), action(0)};
  const std::vector kinds = {few, many};
  Prediction p;
  p.operations = operation_seconds(m, kinds);
  EXPECT_EQ(p.operations, (std::map<std::string, double>{{"fill", 6}, {"norm", 4}}));
  EXPECT_THAT(prediction_text(p, m), HasSubstr("longest operations   fill 6.00 s, norm 4.00 s\n"));
}

TEST(Prediction, DurationsAreReadByPeople) {
  for (const auto& [seconds, text] : {std::pair{0.25, "250.00 ms"},
                                      {90.0, "90.00 s"},
                                      {900.0, "15.0 min"},
                                      {10800.0, "3.0 h"},
                                      {4 * 86400.0, "4.0 days"}}) {
    Prediction p;
    p.step = seconds;
    EXPECT_THAT(prediction_text(p, test::plain_machine("host")), HasSubstr(text));
  }
}

// As DeepSpeed numbers what is sharded.
TEST(Choices, HaveTheStageOfTheirCadences) {
  RunChoice c;
  const auto ends = [&](const std::string& text) {
    EXPECT_THAT(overrides_of(c), testing::EndsWith(" model.recompute=none " + text));
    const auto stage = text.substr(0, text.find(' '));
    EXPECT_THAT(
        overrides_of(c, {.cadences = true}),
        testing::EndsWith(stage == text ? text + " zero.gather=microbatch zero.reduce=microbatch"
                                        : text));
  };
  ends("zero.stage=0");
  c.zero_stage = 3;
  ends("zero.stage=3 zero.gather=microbatch zero.reduce=microbatch");
  c.gather = ZeroCadence::step;
  ends("zero.stage=2");
  c.reduce = ZeroCadence::step;
  ends("zero.stage=1");
}

TEST(SearchText, SaysWhatSavesAndWhatCosts) {
  Trial best{.choice = {}, .seconds = 1, .needed_by_kind = {1 << 30}, .sent_by_kind = {1e9}};
  Trial other = best;
  other.seconds = 1.5;
  other.needed_by_kind = {1 << 29};
  SearchResult r;
  r.best = {best};
  other.choice.recompute = Recompute::block;
  r.alternatives = {other};
  const auto text = search_text(r, {});
  EXPECT_THAT(text, HasSubstr("\n  model.recompute=block saves "));
  EXPECT_THAT(text, HasSubstr(" and costs 50.0% of the step time\n"));
}

}  // namespace trireme
