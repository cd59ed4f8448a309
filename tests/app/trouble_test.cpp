// What may happen to a run while it is on its way: saves that fail, impatient launchers, a
// processor that lacks something.
#include "kernels/host/kernels.hpp"
#include "tests/app/training.hpp"

namespace trireme {
namespace {

class Trouble : public Training {
 protected:
  nlohmann::json outcome(const std::string& run_dir) {
    return nlohmann::json::parse(contents_of(folder.path() / run_dir / "outcome.json"));
  }
  std::ptrdiff_t rows(const std::string& run_dir) {  // of history.csv, without its head
    return std::ranges::count(contents_of(folder.path() / run_dir / "history.csv"), '\n') - 1;
  }
  bool anything_half_saved(const std::string& run_dir) {
    for (const auto& e :
         std::filesystem::directory_iterator(folder.path() / run_dir / "checkpoints"))
      if (e.path().filename().string().starts_with(".")) return true;
    return false;
  }
};

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Checkpoints of 22 MB, and files of at most 16: MPI's own shared memory needs 4.
const std::string large = "$TRIREME train deck.toml model.layers=1 model.width=384 --run-dir run ";
const std::string limited = "ulimit -S -f 16000; " + large;

TEST_F(Trouble, ASaveThatFailsStopsTheRunAndLeavesTheOlderOnesAlone) {
  ASSERT_EQ(here(large + "train.steps=4").code, 0);

  const auto r = here(limited + "--restart latest checkpoint.async=false");

  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("rank-00000.h5: File too large"), std::string::npos) << r.err;
  EXPECT_EQ(rows("run"), 8);
  EXPECT_EQ(outcome("run").at("status"), "failed");
  EXPECT_FALSE(anything_half_saved("run"));
  EXPECT_EQ(here("$TRIREME inspect run/checkpoints/step-00000004 --verify").code, 0);
  EXPECT_EQ(here(large + "--restart latest").code, 0);
  EXPECT_EQ(rows("run"), 12);
}

// Behind training it is seen at the end of a later step.
TEST_F(Trouble, ASaveThatFailsBehindTrainingStopsTheRun) {
  ASSERT_EQ(here(large + "train.steps=4").code, 0);

  const auto r = here(limited + "--restart latest train.steps=1000000 schedule.shape=constant");

  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("rank-00000.h5: File too large"), std::string::npos) << r.err;
  EXPECT_GT(rows("run"), 8);
  EXPECT_EQ(outcome("run").at("status"), "failed");
  EXPECT_FALSE(anything_half_saved("run"));
  EXPECT_EQ(here("$TRIREME inspect run/checkpoints/step-00000004 --verify").code, 0);
}

TEST_F(Trouble, ASaveThatFailsMayBePassedOver) {
  const auto r = here(limited +
                      "checkpoint.on_error=continue train.steps=1000000 & p=$!; "
                      "until grep -q \"step 8: no checkpoint\" .err; do sleep 0.01; done; "
                      "prlimit --pid $p --fsize=unlimited:; "
                      "until [ -e run/checkpoints/step-*/manifest.json ]; do sleep 0.01; done; "
                      "kill -TERM $p; wait $p");

  EXPECT_EQ(r.code, 75) << r.err;
  EXPECT_NE(r.err.find("step 4: no checkpoint"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("File too large"), std::string::npos) << r.err;
  EXPECT_EQ(outcome("run").at("status"), "stopped");
  EXPECT_EQ(here("$TRIREME inspect run --verify").code, 0);
}

// The run ends with what it has, and names the file.
TEST_F(Trouble, ATokenFileThatIsCutOffEndsTheRunWithACheckpoint) {
  const auto r = here(
      "$TRIREME train deck.toml train.steps=1000000 checkpoint.every_steps=0 & p=$!; "
      "while [ $(cat runs/deck/history.csv 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; "
      "truncate -s 1000 text.tokens; wait $p");

  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("this token file was whole"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("text.tokens ends before byte"), std::string::npos) << r.err;
  EXPECT_EQ(outcome("runs/deck").at("status"), "failed");
  EXPECT_EQ(here("$TRIREME inspect runs/deck --verify").code, 0);
}

// The last save keeps the run's work: without it the run has failed whatever the deck says.
TEST_F(Trouble, TheLastSaveIsNotPassedOver) {
  const auto r = here(limited + "checkpoint.on_error=continue");

  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_EQ(count(r.err, "no checkpoint:"), 2) << r.err;  // of steps 4 and 8
  EXPECT_NE(r.err.find("File too large"), std::string::npos) << r.err;
  EXPECT_EQ(rows("run"), 12);
  EXPECT_EQ(outcome("run").at("status"), "failed");
  EXPECT_FALSE(anything_half_saved("run"));
}

// Where it showed its progress is gone.
TEST_F(Trouble, ATerminalThatGoesAwayDoesNotEndTheRun) {
  const auto r = here("$TRIREME train deck.toml --run-dir run --progress yes 2>/dev/full");

  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(outcome("run").at("status"), "done");
}

// Signals find the process in the middle of a product, whatever its registers hold.
TEST_F(Trouble, AHailOfSignalsChangesNoBit) {
  const std::string train =
      "$TRIREME train deck.toml model.width=256 train.batch=300 train.microbatch=1 train.steps=2 "
      "--run-dir ";
  ASSERT_EQ(here(train + "quiet").code, 0);

  const auto r = here(train +
                      "hail & p=$!; while [ ! -e hail/outcome.json ]; do sleep 0.01; done; "
                      "while kill -USR1 $p 2>/dev/null; do sleep 0.002; done; wait $p");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(losses("hail"), losses("quiet"));
  EXPECT_EQ(arrays("hail", "00000002"), arrays("quiet", "00000002"));
}

// Launchers deliver one stop several times.
TEST_F(Trouble, ASecondSignalAtOnceIsTheSameWish) {
  const auto r = here(
      "$TRIREME train deck.toml train.steps=1000000 checkpoint.every_steps=0 & p=$!; "
      "while [ $(cat runs/deck/history.csv 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; "
      "kill -TERM $p; kill -TERM $p; kill -INT $p; wait $p");

  EXPECT_EQ(r.code, 75) << r.err;
  EXPECT_EQ(outcome("runs/deck").at("status"), "stopped");
}

// Also while MPI ends and after it.
TEST_F(Trouble, ASecondSignalAtTheEndChangesNothing) {
  for (int i = 0; i < 10; ++i) {
    const auto r = here(
        "$TRIREME train deck.toml train.steps=1000000 checkpoint.every_steps=0 --overwrite & p=$!; "
        "rm -f runs/deck/history.csv; "
        "while [ $(cat runs/deck/history.csv 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; "
        "kill -TERM $p; while kill -TERM $p 2>/dev/null; do sleep 0.001; done; wait $p");
    ASSERT_EQ(r.code, 75) << r.err;
  }
}

// A terminal that is closed, a reader that had enough.
TEST_F(Trouble, AHangUpAndAnOutputThatNobodyReadsEndWithACheckpoint) {
  const auto hung = here(
      "$TRIREME train deck.toml train.steps=1000000 checkpoint.every_steps=0 --run-dir a & p=$!; "
      "while [ $(cat a/history.csv 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; "
      "kill -HUP $p; wait $p");
  const auto unread = here(
      "set -o pipefail; "
      "$TRIREME train deck.toml --progress yes train.steps=1000000 checkpoint.every_steps=0 "
      "--run-dir b 2>&1 | grep -m 1 info");

  EXPECT_EQ(hung.code, 75) << hung.err;
  EXPECT_EQ(outcome("a").at("status"), "stopped");
  EXPECT_EQ(unread.code, 75) << unread.err;
  EXPECT_EQ(outcome("b").at("status"), "stopped");
  EXPECT_EQ(here("$TRIREME inspect b --verify").code, 0);
}

TEST_F(Trouble, FilesAskAsSignalsDo) {
  const auto r = here(
      "$TRIREME train deck.toml train.steps=1000000 checkpoint.every_steps=0 --run-dir run & p=$!; "
      "while [ $(cat run/history.csv 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; "
      "touch run/checkpoint_now; "
      "until ls run/checkpoints/step-*/manifest.json >/dev/null 2>&1; do sleep 0.01; done; "
      "cat /proc/$p/comm; touch run/stop_now; wait $p");

  EXPECT_EQ(r.code, 75) << r.err;
  EXPECT_EQ(r.out, "trireme\n");  // what top and the kernel's messages call it
  EXPECT_EQ(outcome("run").at("exit_reason"), "the file stop_now asked for it");
  EXPECT_EQ(here("ls run/*_now").out, "");
}

// The directory is not made anew behind the user's back.
TEST_F(Trouble, ARunDirectoryThatIsRemovedEndsTheRun) {
  const auto r = here(
      "$TRIREME train deck.toml train.steps=1000000 checkpoint.every_steps=0 --run-dir run & p=$!; "
      "while [ $(cat run/history.csv 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; "
      "mv run elsewhere; kill -USR1 $p; wait $p");

  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("is gone: somebody removed or renamed"), std::string::npos) << r.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST_F(Trouble, TheLogSaysWhatRanWhereAndHowFast) {
  const auto r = here(
      "SLURM_JOB_ID=123 SLURM_RESTART_COUNT=2 SLURM_JOB_NODELIST=n[1-2] $TRIREME train deck.toml "
      "\"train.seed=\\${SLURM_JOB_ID}\" --run-dir \"runs/\\${SLURM_JOB_ID}\"");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto log = contents_of(folder / "runs/123/log");
  for (const std::string text : {"info trireme ", "deck.toml, run directory /", "runs/123",
                                 "Slurm job 123, restart 2, on n[1-2]: 1 rank, ",
                                 "12 steps in 00:00:", "tokens/s on average",
                                 "last checkpoint runs/123/checkpoints/step-00000012"})
    EXPECT_NE(log.find(text), std::string::npos) << text << "\n" << log;
  EXPECT_NE(contents_of(folder / "runs/123/effective.toml").find("seed = 123"), std::string::npos);
}

// It died after its last checkpoint, before it wrote how it ended.
TEST_F(Trouble, ARestartThatFindsTheRunFinishedSaysSoInItsOutcome) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir run && "
                 "sed -i s/done/running/ run/outcome.json")
                .code,
            0);
  EXPECT_EQ(here("$TRIREME train deck.toml --run-dir run --restart latest").code, 0);
  EXPECT_EQ(outcome("run").at("status"), "done");
}

// Steps of minutes.
const std::string slow_step =
    "$TRIREME train deck.toml model.width=256 train.batch=60000 train.microbatch=1 ";
const std::string until_it_trains = "while [ ! -e runs/deck/outcome.json ]; do sleep 0.01; done; ";

TEST_F(Trouble, AStepThatASignalCannotWaitForIsDropped) {
  const auto r = here(slow_step + "run.signal_grace=30 & p=$!; " + until_it_trains +
                      "SECONDS=0; kill -TERM $p; wait $p; code=$?; echo $SECONDS; exit $code");

  EXPECT_EQ(r.code, 75) << r.err;
  EXPECT_LT(std::stoi(r.out), 20) << "by what the rest would take";
  EXPECT_NE(r.err.find("step 1 is dropped"), std::string::npos) << r.err;
  EXPECT_EQ(rows("runs/deck"), 0);
  EXPECT_EQ(outcome("runs/deck").at("status"), "stopped");
  EXPECT_EQ(here("$TRIREME inspect runs/deck --verify").code, 0);
}

// The first signal waits for the end of the step, as do those of a batch system; whoever types ^C
// again does not.
TEST_F(Trouble, ASecondInterruptLaterEndsTheProcess) {
  const auto r = here(slow_step + "run.signal_grace=1e6 & p=$!; " + until_it_trains +
                      "kill -TERM $p; sleep 3.1; kill -TERM $p; kill -HUP $p; sleep 0.2; "
                      "kill -INT $p; sleep 2.3; kill -0 $p || exit 99; kill -INT $p; wait $p");

  EXPECT_EQ(r.code, 128 + SIGINT) << r.err;
  EXPECT_EQ(rows("runs/deck"), 0);
  EXPECT_EQ(outcome("runs/deck").at("status"), "running");
}

// oneDNN is told to take the processor for one without AVX-512.
TEST_F(Trouble, WithoutBf16ItComputesInF32AndSaysSoOnce) {
  const std::string old = "export ONEDNN_MAX_CPU_ISA=AVX2; ", warning = "computing in f32";
  const std::string narrow = "$TRIREME train deck.toml --run-dir narrow precision.compute=bf16";
  ASSERT_EQ(here(old + "$TRIREME train deck.toml --run-dir wide").code, 0);

  const auto r = here(old + narrow);

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(count(r.err, warning), 1) << r.err;
  EXPECT_EQ(losses("narrow"), losses("wide"));
  EXPECT_EQ(arrays("narrow", "00000012"), arrays("wide", "00000012"));
  for (const std::string command : {"check deck.toml precision.compute=bf16", "evaluate narrow",
                                    "generate narrow --prompt the --tokens 3"}) {
    const auto other = here(old + "$TRIREME " + command);
    EXPECT_EQ(other.code, 0) << other.err;
    EXPECT_EQ(count(other.err, warning), 1) << command << other.err;
  }
  if (host::bf16_products()) {
    const auto able = here(narrow + " --overwrite");
    EXPECT_EQ(count(able.err, warning), 0) << able.err;
    EXPECT_NE(losses("narrow"), losses("wide"));
  }
}

}  // namespace
}  // namespace trireme
