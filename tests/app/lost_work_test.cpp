// What must not be lost: checkpoints that cannot be read, evaluations that a stop came before, runs
// in the way of a start that fails, tables that were damaged.
#include "tests/app/training.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class LostWork : public Training {
 protected:
  std::string file(const std::string& path) { return contents_of(folder.path() / path); }
  nlohmann::json outcome(const std::string& run) {
    return nlohmann::json::parse(file(run + "/outcome.json"));
  }
  static bool says(const test::Finished& r, const std::string& what) {
    return r.err.find(what) != std::string::npos;
  }
};

TEST_F(LostWork, CheckpointsOfWhichNoneCanBeReadAreAnErrorThatTouchesNothing) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir run && "
                 "for i in run/checkpoints/*; do mv $i/manifest.json $i/away; done")
                .code,
            0);
  const auto history = file("run/history.csv");

  const auto r = here("$TRIREME train deck.toml --run-dir run --restart latest");

  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_TRUE(says(r, "--overwrite") && says(r, "--restart") && says(r, "manifest.json")) << r.err;
  EXPECT_EQ(file("run/history.csv"), history);
  for (const char* step : {"04", "08", "12"})
    EXPECT_TRUE(fs::exists(folder / ("run/checkpoints/step-000000" + std::string(step))));
  // It was a file system that did not answer for a while.
  ASSERT_EQ(here("for i in run/checkpoints/*; do mv $i/away $i/manifest.json; done").code, 0);
  EXPECT_EQ(here("$TRIREME train deck.toml --run-dir run --restart latest").code, 0);
}

TEST_F(LostWork, WhatIsNoShardIsMissedAndMadeAgain) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir whole && "
                 "cp -r whole/checkpoints/step-00000008 copy && "
                 "printf x | dd of=copy/master.h5 bs=1 seek=500 conv=notrunc")
                .code,
            0);
  const std::string restart = "$TRIREME train deck.toml --run-dir other --restart copy";

  const auto master = here(restart);
  const auto manifest = here("mv copy/manifest.json away && " + restart);
  EXPECT_FALSE(fs::exists(folder / "other"));
  const auto repair = here("$TRIREME inspect copy --repair --verify");

  EXPECT_EQ(master.code, 1) << master.err;
  EXPECT_TRUE(says(master, "master.h5 does not match its hash")) << master.err;
  EXPECT_TRUE(says(master, "trireme inspect copy --repair")) << master.err;
  EXPECT_EQ(manifest.code, 1) << manifest.err;
  EXPECT_TRUE(says(manifest, "trireme inspect copy --repair")) << manifest.err;
  EXPECT_EQ(repair.code, 0) << repair.out << repair.err;
  ASSERT_EQ(here(restart).code, 0);
  EXPECT_EQ(arrays("other", "00000012"), arrays("whole", "00000012"));
}

TEST_F(LostWork, WithoutACheckpointTheLatestIsAFreshStart) {
  const auto r =
      here("mkdir -p run/checkpoints; $TRIREME train deck.toml --run-dir run --restart latest");

  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(says(r, "starts fresh")) << r.err;
}

TEST_F(LostWork, AStopBeforeAnEvaluationOnlyPostponesIt) {
  const std::string train =
      "$TRIREME train deck.toml train.steps=400 checkpoint.every_steps=0 evaluate.every_steps=1 "
      "--run-dir ";
  ASSERT_EQ(here(train + "whole").code, 0);
  const auto stopped =
      here(train +
           "cut & p=$!; while [ $(cat cut/history.csv 2>/dev/null | wc -l) -lt 5 ]; do sleep "
           "0.01; done; kill -TERM $p; wait $p");
  ASSERT_EQ(stopped.code, 75) << stopped.err;

  const auto r = here(train + "cut --restart latest");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(losses("cut"), losses("whole"));
  EXPECT_EQ(file("cut/evaluation.csv"), file("whole/evaluation.csv"));
}

// 100,000 held-out samples take long enough for a signal to come in between.
TEST_F(LostWork, TheLastEvaluationIsMadeHoweverOftenItIsBrokenOff) {
  ASSERT_EQ(here("for i in $(seq 200); do cat text.txt; done >long.txt; "
                 "$TRIREME tokenize long.txt --output long.tokens")
                .code,
            0);
  const std::string train =
      "$TRIREME train deck.toml train.steps=2 evaluate.batches=0 data.validation=[\"long.tokens\"] "
      "--run-dir run ";
  const std::string in_evaluation =
      "& p=$!; while [ ! -e run/checkpoints/step-00000002 ]; do sleep 0.01; done; sleep 0.2; ";

  const auto stopped = here(train + in_evaluation + "kill -TERM $p; wait $p");
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_EQ(outcome("run").at("status"), "stopped");
  const auto killed = here(train + "--restart latest & p=$!; sleep 1; kill -9 $p; wait $p");
  EXPECT_EQ(killed.code, 128 + SIGKILL) << killed.err;
  EXPECT_EQ(outcome("run").at("status"), "running");
  EXPECT_EQ(std::ranges::count(file("run/evaluation.csv"), '\n'), 1);

  const auto r = here(train + "--restart latest evaluate.batches=2");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(std::ranges::count(file("run/evaluation.csv"), '\n'), 2);
  EXPECT_EQ(outcome("run").at("status"), "done");
}

TEST_F(LostWork, AFinishedRunIsSaidToBeDone) {
  ASSERT_EQ(here("$TRIREME train deck.toml && sed -i s/done/running/ runs/deck/outcome.json").code,
            0);
  ASSERT_EQ(outcome("runs/deck").at("status"), "running");

  EXPECT_EQ(here("$TRIREME train deck.toml --restart latest").code, 0);

  EXPECT_EQ(outcome("runs/deck").at("status"), "done");
  EXPECT_EQ(outcome("runs/deck").at("step"), 12);
}

TEST_F(LostWork, NothingIsOverwrittenBeforeAllIsChecked) {
  ASSERT_EQ(here("$TRIREME train deck.toml").code, 0);
  const auto before = here("find runs -type f ! -name lock | sort | xargs md5sum").out;

  const std::string train = "$TRIREME train deck.toml --overwrite ";
  for (const std::string wrong :
       {"--time-limit soon", "train.steps=0", "data.path=none.tokens", "model.context=9999",
        "data.validation=0.0001", "model.init_from=nowhere", "run.trace_steps=[3]",
        // Weights of 200 MB that fit, and activations of terabytes that do not.
        "model.width=1024 train.batch=2000000 train.microbatch=2000000"}) {
    const auto r = here(train + wrong);
    EXPECT_EQ(r.code, 1) << wrong << "\n" << r.err;
    EXPECT_EQ(here("find runs -type f ! -name lock | sort | xargs md5sum").out, before) << wrong;
  }

  EXPECT_EQ(here(train + "train.steps=2").code, 0);
}

TEST_F(LostWork, ACheckpointThatWasBeingReplacedIsGoneOnFrom) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir run && cd run/checkpoints && "
                 "cp -r step-00000012 .step-00000012.partial && "
                 "mv step-00000012 .step-00000012.replaced")
                .code,
            0);

  EXPECT_EQ(here("$TRIREME evaluate run").out.substr(0, 8), "step 12:");
  const auto r = here("$TRIREME train deck.toml --run-dir run --restart latest");

  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(says(r, "finished")) << r.err;
  EXPECT_EQ(here("$TRIREME inspect run/checkpoints/step-00000012 --verify").code, 0);
}

// Whatever happened to it, history.csv goes on whole: the checkpoint carries its newest rows.
TEST_F(LostWork, ADamagedHistoryIsSaidAndRebuilt) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir whole").code, 0);
  const auto whole = losses("whole");
  const auto evaluation = file("whole/evaluation.csv");
  for (const std::string damage :
       {"rm run/history.csv run/evaluation.csv", "truncate -s 0 run/history.csv",
        "sed -i 3,7d run/history.csv", "sed -i \"5s/.*/rubbish/\" run/history.csv",
        "sed -i \"4s/$/,1/\" run/history.csv", "sed -i 4p run/history.csv",
        "sed -i \"6s/,[0-9.]*,/,nothing,/\" run/history.csv"}) {
    ASSERT_EQ(
        here("rm -rf run; cp -r whole run; rm -r run/checkpoints/step-00000012; " + damage).code,
        0);

    const auto r = here("$TRIREME train deck.toml --run-dir run --restart latest");

    EXPECT_EQ(r.code, 0) << damage << "\n" << r.err;
    EXPECT_TRUE(says(r, "warning history.csv: ")) << damage << "\n" << r.err;
    EXPECT_EQ(losses("run"), whole) << damage;
    EXPECT_EQ(file("run/evaluation.csv"), evaluation) << damage;
  }
}

// A run that goes on elsewhere has a history of its own, which lacks nothing.
TEST_F(LostWork, AHistoryMayBeginLate) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir whole").code, 0);
  const auto first = here(
      "$TRIREME train deck.toml --run-dir other --restart whole/checkpoints/step-00000004 "
      "train.steps=9");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_FALSE(says(first, "history.csv:")) << first.err;
  EXPECT_EQ(std::ranges::count(losses("other"), '\n'), 1 + 5);

  const auto r = here("$TRIREME train deck.toml --run-dir other --restart latest");

  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_FALSE(says(r, "history.csv:")) << r.err;
  EXPECT_EQ(std::ranges::count(losses("other"), '\n'), 1 + 8);
}

}  // namespace
}  // namespace trireme
