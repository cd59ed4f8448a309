// The memory that a plan predicts is what the run takes, whatever happens meanwhile.
#include "tests/app/grid_training.hpp"

namespace trireme {
namespace {

class FreezePlan : public Training {
 protected:
  // Next to nothing trains in the first half of the run.
  FreezePlan() {
    folder.write("thawing.toml", std::string(training_deck) +
                                     "[[freeze]]\npattern = \"*\"\nto_step = 6\n"
                                     "[[freeze]]\npattern = \"final_norm.*\"\nfrom_step = 9\n");
    folder.write("frozen.toml", std::string(training_deck) + "[[freeze]]\npattern = \"*\"\n");
  }
  nlohmann::json plan(const std::string& deck, const std::string& arguments = "") {
    const auto r = here("$TRIREME plan " + deck + " --json " + arguments);
    EXPECT_EQ(r.code, 0) << r.err;
    return nlohmann::json::parse(r.out);
  }
  // What the run's log says it reserved.
  std::int64_t reserved(const std::string& run) {
    const auto log = contents_of(folder / (run + "/log"));
    const std::string before = "bytes reserved by rank: ";
    const auto at = log.find(before);
    EXPECT_NE(at, std::string::npos) << log;
    return std::stoll(log.substr(at + before.size()));
  }
};

TEST_F(FreezePlan, IsOfAllThatIsThawedOnTheWay) {
  const auto p = plan("thawing.toml");
  ASSERT_EQ(here("$TRIREME train thawing.toml --run-dir run").code, 0);

  EXPECT_EQ(p.at("reserved_bytes"), reserved("run"));
  EXPECT_EQ(p.at("freeze_borders"), (std::vector<int>{6, 9}));
  EXPECT_EQ(p.at("busiest_step"), 6);
  EXPECT_GT(p.at("reserved_bytes"), plan("frozen.toml").at("reserved_bytes"));
  EXPECT_EQ(p.at("ranks")[0].at("step_flops"), plan("deck.toml").at("ranks")[0].at("step_flops"));
}

TEST_F(FreezePlan, LeavesOutWhatThawsAfterTheRun) {
  EXPECT_EQ(plan("thawing.toml", "train.steps=6").at("reserved_bytes"),
            plan("frozen.toml").at("reserved_bytes"));
  EXPECT_EQ(plan("thawing.toml", "train.steps=6").at("freeze_borders").size(), 0U);
}

// Digests on the way take their place, too.
TEST_F(FreezePlan, IsOfStepsThatAreComputedTwice) {
  const std::string keys = " train.microbatch=1 run.replay_every=2 run.digest_every=1";
  ASSERT_EQ(here("$TRIREME train thawing.toml --run-dir run" + keys).code, 0);

  EXPECT_EQ(plan("thawing.toml", keys).at("reserved_bytes"), reserved("run"));
}

// Starts and positions of documents take their place in each microbatch, also in evaluations.
TEST_F(FreezePlan, IsOfAttentionWithinDocuments) {
  const std::string keys = " data.attention=document train.microbatch=1";
  ASSERT_EQ(here("$TRIREME train thawing.toml --run-dir run" + keys).code, 0);

  EXPECT_EQ(plan("thawing.toml", keys).at("reserved_bytes"), reserved("run"));
}

TEST_F(FreezePlan, DeviceMemoryMustHoldItAll) {
  const auto most = plan("thawing.toml").at("reserved_bytes").get<std::int64_t>();
  const auto with = [&](std::int64_t bytes) {
    return here("$TRIREME plan thawing.toml --device-memory " + std::to_string(bytes));
  };

  EXPECT_EQ(with(most).code, 0);
  const auto refused = with(most - 1);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("more than --device-memory"), std::string::npos) << refused.err;
  for (const auto* said : {"M parameters, 0.00M of them trained at first, ",
                           "what is trained changes in steps 6, 9: "})
    EXPECT_NE(refused.out.find(said), std::string::npos) << said << refused.out;
}

// An evaluation gives a pipeline more microbatches at once than a step of one does, whose own needs
// are small where nothing trains.
TEST_F(GridTraining, APlanHoldsWhatAnEvaluationTakes) {
  folder.write("deck.toml", std::string(grid_deck) + "[[freeze]]\npattern = \"*\"\n");
  const std::string deck =
      "deck.toml parallel.pipe=2 train.batch=1 train.microbatch=1 train.steps=2 model.width=8 "
      "model.heads=2 model.context=4 model.dropout=0 ";
  const auto planned = here("$TRIREME plan " + deck + "--ranks 2 --json");
  ASSERT_EQ(planned.code, 0) << planned.err;
  const auto run = here(on(2, "train " + deck + "--run-dir run"));
  ASSERT_EQ(run.code, 0) << run.err;

  const auto plan = nlohmann::json::parse(planned.out);
  std::string said = "bytes reserved by rank:";
  for (const auto& r : plan.at("ranks")) said += " " + r.at("reserved_bytes").dump();
  const auto log = contents_of(folder / "run/log");
  EXPECT_NE(log.find(said), std::string::npos) << said << "\n" << log;
}

TEST_F(GridTraining, WhatFitsIsNamedWithItsCosts) {
  const std::string plan = "$TRIREME plan deck.toml --ranks 4 ";
  const auto json = here(plan + "zero.stage=3 --json");
  ASSERT_EQ(json.code, 0) << json.err;
  const auto limit =
      nlohmann::json::parse(json.out).at("reserved_bytes").get<std::int64_t>() + (64 << 10);
  const auto refused = here(plan + "--device-memory " + std::to_string(limit) + "B");

  EXPECT_EQ(refused.code, 1);
  for (const auto* word :
       {"on 4 ranks these fit:", "needed", "bubble", "sends a step", "zero.stage=", "%"})
    EXPECT_NE(refused.err.find(word), std::string::npos) << word << "\n" << refused.err;
  EXPECT_NE(here(plan + "--device-memory 80").err.find("80 bytes? write 80G"), std::string::npos);
}

// The numbers of a build with the toolkit, cuDNN's frontend and NCCL, whichever this one is. That a
// run takes what its plan says is seen on the simulated device (gpu_test_simulated).
TEST_F(Training, APlanForGpusIsTheSameInEveryBuild) {
  using Bytes = std::pair<std::int64_t, std::int64_t>;  // reserved, needed
  const auto planned = [&](const std::string& overrides) {
    const auto r = here(
        "$TRIREME plan deck.toml --ranks 4 run.backend=cuda parallel.pipe=2 --json " + overrides);
    EXPECT_EQ(r.code, 0) << r.err;
    const auto plan = nlohmann::json::parse(r.out);
    return Bytes(plan.at("reserved_bytes"), plan.at("needed_bytes"));
  };

  const std::string fused = "precision.compute=bf16 model.context=512 zero.stage=3 ";
  EXPECT_EQ(planned("zero.stage=3"), Bytes(67'551'488, 3'437'252'864));
  EXPECT_EQ(planned("run.share_gpu=true"), Bytes(67'590'656, 1'141'332'480));
  EXPECT_EQ(planned(fused + "run.exactness=repeatable"), Bytes(70'877'184, 3'440'578'560));
  EXPECT_EQ(planned(fused + "model.kv_heads=1"), Bytes(69'098'496, 3'438'799'872));
}

// By NVIDIA's data sheet of the H100 SXM: 67, 494.5 and 989 TFLOP/s.
TEST_F(Training, AGpuWhoseTensorCoresIdleIsWarnedOf) {
  const auto said = [&](const std::string& overrides) {
    const auto r = here("$TRIREME plan deck.toml " + overrides);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.err;
  };

  const auto slow = said("run.backend=cuda");
  for (const auto* word : {"14.8 times", "7.4 times", "precision.compute", "precision.tf32"})
    EXPECT_NE(slow.find(word), std::string::npos) << word << "\n" << slow;
  EXPECT_EQ(slow.find("warning"), slow.rfind("warning")) << slow;
  for (const auto* fast : {"run.backend=cuda precision.compute=bf16",
                           "run.backend=cuda precision.tf32=true", "run.backend=host"})
    EXPECT_EQ(said(fast), "") << fast;
}

}  // namespace
}  // namespace trireme
