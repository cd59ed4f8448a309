// Runs with run.exactness = "invariant": threads, kinds of CPU, sums that are too large for counts.
#include <fmt/format.h>

#include "tests/app/grid_training.hpp"

namespace trireme {
namespace {

class ExactRun : public GridTraining {
 protected:
  // oneDNN takes other instructions, as on an older CPU.
  static constexpr const char* older = "ONEDNN_MAX_CPU_ISA=AVX ";
  static constexpr const char* exact = " run.exactness=invariant run.exact_chunk=4 ";

  nlohmann::json outcome() {
    return nlohmann::json::parse(contents_of(folder / "run/outcome.json"));
  }
  test::Finished train(const std::string& before, const std::string& arguments) {
    return here(before + "$TRIREME train deck.toml --run-dir run " + arguments);
  }
};

TEST_F(ExactRun, AnyNumberOfThreadsHasTheSameBits) {
  ASSERT_EQ(train("", std::string(exact) + "train.steps=4").code, 0);
  const auto one = arrays("run", "00000004");
  ASSERT_NE(one, "");
  const auto r = train("", std::string(exact) + "--overwrite train.steps=4 run.threads=8");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(arrays("run", "00000004"), one);
}

// The 16 tokens of a sample are a chunk, which no two ranks of seq can share. What the message
// library says of itself is no part of the text.
TEST_F(ExactRun, TextComesFromRanksThatCouldNotTrainIt) {
  ASSERT_EQ(train("", "run.exactness=invariant run.exact_chunk=16 train.steps=2").code, 0);
  const std::string generate = "generate run --prompt fox --tokens 8 --seed 1";
  const auto one = here("$TRIREME " + generate),
             two = here("export UCX_LOG_LEVEL=info; " + on(2, generate + " parallel.seq=2"));
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(two.out, one.out);
}

TEST_F(ExactRun, RanksOnTwoKindsOfCpuAreRefused) {
  const auto on_two_kinds = [&](const std::string& arguments) {
    const std::string command = "$TRIREME train deck.toml --run-dir run train.steps=1 " + arguments;
    return here("$MPIEXEC -n 1 " + command + " : -n 1 env " + older + command);
  };
  const auto r = on_two_kinds(exact);
  EXPECT_NE(r.code, 0);
  EXPECT_NE(r.err.find("needs CPUs of one kind: rank 0 has "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(", rank 1 has "), std::string::npos) << r.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "run/outcome.json"));

  EXPECT_EQ(on_two_kinds("run.exactness=repeatable").code, 0);
  EXPECT_NE(outcome().at("machine").get<std::string>().find(" and "), std::string::npos);
}

TEST_F(ExactRun, ARestartOnAnotherKindOfCpuSaysSo) {
  const std::string said = "the checkpoint comes from another kind of machine";
  ASSERT_EQ(train("", std::string(exact) + "train.steps=1").code, 0);
  const auto kind = outcome().at("machine").get<std::string>();
  EXPECT_NE(kind.find(", oneDNN "), std::string::npos) << kind;
  EXPECT_NE(kind.find(", kernels for "), std::string::npos) << kind;
  EXPECT_NE(here("$TRIREME inspect run").out.find(kind), std::string::npos);

  const auto restarted = [&](const std::string& before, const std::string& arguments) {
    const auto r = train(before, arguments + " --restart latest");
    EXPECT_EQ(r.code, 0) << r.err;
    return count(r.err, said);
  };
  EXPECT_EQ(restarted("", std::string(exact) + "train.steps=2"), 0);
  EXPECT_EQ(restarted(older, std::string(exact) + "train.steps=3"), 1);
  EXPECT_NE(outcome().at("machine"), kind);
  EXPECT_EQ(restarted("", "run.exactness=repeatable train.steps=4"), 1);
  EXPECT_EQ(restarted(older, "train.steps=5"), 0);  // fast
}

// Its weights are those of the step before: they are saved first.
TEST_F(ExactRun, AnOverflowOfCountsEndsTheRunWithACheckpoint) {
  const std::string diverging = std::string(exact) +
                                "optimizer.lr=30 optimizer.clip=0 schedule.shape=constant "
                                "schedule.warmup_steps=1 checkpoint.every_steps=0 ";
  const auto r = here(GridTraining::train({2, "parallel.pipe=2"}, diverging + "--run-dir run"));

  EXPECT_EQ(r.code, 1) << r.err;
  const auto end = outcome();
  EXPECT_EQ(end.at("status"), "failed");
  EXPECT_NE(end.at("exit_reason").get<std::string>().find("the model has diverged"),
            std::string::npos);
  const auto step = end.at("step").get<int>();
  ASSERT_GE(step, 1);
  const auto saved = end.at("last_good_checkpoint").get<std::string>();
  EXPECT_TRUE(saved.ends_with(fmt::format("step-{:08}", step))) << saved;
  EXPECT_EQ(here("$TRIREME inspect run --verify").code, 0);
  const auto again =
      train("", fmt::format("train.steps={} --restart latest optimizer.lr=0", step + 1));
  EXPECT_EQ(again.code, 0) << again.err;
}

}  // namespace
}  // namespace trireme
