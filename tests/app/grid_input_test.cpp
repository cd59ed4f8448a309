// What a user of a grid gets wrong, and what breaks on one rank alone: one clear message, a
// non-zero exit, no hang, and an earlier run in the same place intact.
#include "lib/base/host_name.hpp"
#include "tests/app/grid_training.hpp"

namespace trireme {
namespace {

class GridInput : public GridTraining {
 protected:
  GridInput() {
    folder.write("run/history.csv", "step\n1\n");
    folder.write("run/effective.toml", "mine");
    folder.write("run/outcome.json", "{}");
  }
  ~GridInput() override {
    EXPECT_EQ(contents_of(folder / "run/history.csv"), "step\n1\n");
    EXPECT_EQ(contents_of(folder / "run/effective.toml"), "mine");
  }
  // Fails with one message, which says each of `words`.
  void expect_refused(const std::string& command, std::initializer_list<const char*> words) {
    const auto r = here(command, 30);
    EXPECT_NE(r.code, 0) << command;
    EXPECT_LT(r.code, 124) << command << "\n" << r.err;  // neither a signal nor the time limit
    EXPECT_EQ(count(r.err, " error "), 1) << command << "\n" << r.err;
    for (const char* word : words)
      EXPECT_NE(r.err.find(word), std::string::npos)
          << command << " does not say \"" << word << "\":\n"
          << r.err;
  }
  // Over the run that is there.
  void expect_refused_on(int ranks, const std::string& arguments,
                         std::initializer_list<const char*> words) {
    expect_refused(on(ranks, "train deck.toml --run-dir run --overwrite " + arguments), words);
  }
  void break_token(int i) {
    const auto r = here(
        "cp text.tokens hurt.tokens; printf \"\\377\\377\" | dd of=hurt.tokens "
        "bs=1 conv=notrunc seek=" +
        std::to_string(256 + 2 * i));
    ASSERT_EQ(r.code, 0) << r.err;
  }
};

TEST_F(GridInput, GridsThatDoNotFit) {
  expect_refused_on(4, "parallel.pipe=3",
                    {"pipe 3", "4 ranks", "4 x 1 x 1", "2 x 2 x 1", "2 x 1 x 2"});
  expect_refused_on(4, "parallel.pipe=2 parallel.data=1", {"4 ranks", "2 x 2 x 1"});
  expect_refused_on(4, "parallel.pipe=4 model.layers=2", {"parallel.pipe = 4", "model.layers = 2"});
  expect_refused_on(2, "parallel.pipe=2 parallel.schedule=interleaved",
                    {"needs parallel.chunks of 2 or more"});
  expect_refused_on(2, "parallel.pipe=2 parallel.chunks=2", {"parallel.chunks = 2 is of"});
  expect_refused_on(4, "parallel.seq=4 model.heads=2", {"parallel.seq = 4", "model.heads = 2"});
  expect_refused_on(2, "parallel.seq=2 model.context=15",
                    {"parallel.seq = 2", "model.context = 15", "1, 3"});
  expect_refused_on(4, "train.batch=6 train.microbatch=1",
                    {"train.batch = 6", "batches that are: 4, 8"});
  expect_refused_on(2, "train.batch=6 train.microbatch=2", {"train.microbatch = 2", "1, 3"});
  expect_refused_on(2, "zero.stage=3 zero.shard=3", {"zero.shard = 3", "1, 2"});
}

TEST_F(GridInput, KeysOfTheAxes) {
  expect_refused_on(2, "zero.stage=3 zero.prefetch=-1", {"zero.prefetch", "0 to"});
  expect_refused_on(2, "zero.stage=3 zero.prefetch=1000", {"zero.prefetch", "0 to"});
  expect_refused_on(2, "zero.stge=3", {"zero.stge", "zero.stage"});
  const auto with = [&](const std::string& rule) {
    folder.write("freeze.toml", std::string(grid_deck) + "[[freeze]]\n" + rule);
    return on(2, "train freeze.toml parallel.pipe=2 --run-dir run --overwrite");
  };
  expect_refused(with("pattern = \"blocks.9.*\"\n"), {"freeze.pattern", "blocks.9.*"});
  expect_refused(with("pattern = \"blocks.1.*\"\nfrom_stp = 3\n"), {"freeze.toml:", "from_step"});
  expect_refused(with("from_step = 3\n"), {"freeze.pattern"});
  expect_refused(with("pattern = \"*.bias\"\nfrom_step = 5\nto_step = 3\n"), {"*.bias", "5", "3"});
}

TEST_F(GridInput, RanksThatWereStartedDifferently) {
  const std::string one = "-n 1 $TRIREME train deck.toml --run-dir run --overwrite ";
  expect_refused("$MPIEXEC " + one + ": " + one + "train.steps=5",
                 {"rank 1", "different arguments"});
  // One that does not get as far as training.
  expect_refused("$MPIEXEC " + one + ": " + one + "--nonsense", {"rank 1", "different arguments"});
  expect_refused("$MPIEXEC " + one + "--nonsense : " + one, {"rank 1", "different arguments"});

  const auto all = here(on(2, "train deck.toml --nonsense"));
  EXPECT_NE(all.code, 0);
  EXPECT_EQ(count(all.err, "--nonsense"), 1) << all.err;
}

TEST_F(GridInput, RunDirectories) {
  expect_refused(on(2, "train deck.toml --run-dir /proc/trireme"), {"/proc/trireme", "--run-dir"});
  expect_refused(on(2, "train deck.toml --run-dir run"), {"--restart", "--overwrite"});
  expect_refused(on(2, "train deck.toml --run-dir run --restart run/checkpoints/step-00000003"),
                 {"step-00000003"});
}

TEST_F(GridInput, TokenFiles) {
  expect_refused_on(4, "data.path=none.tokens", {"none.tokens"});
  // What lies behind /proc/self/cwd depends on where a rank was started.
  const std::string rank =
      "$TRIREME train deck.toml data.path=/proc/self/cwd/text.tokens "
      "--run-dir run --overwrite ";
  expect_refused("mkdir elsewhere; $MPIEXEC -n 1 " + rank + ": -n 1 -wdir $PWD/elsewhere " + rank,
                 {"rank 1", "text.tokens"});
}

// Copies on the disks of two nodes: behind /proc/self/cwd each rank finds its own.
TEST_F(GridInput, TokenFilesThatAreNotTheSameOnAllRanks) {
  const std::string rank =
      "$TRIREME train deck.toml data.path=/proc/self/cwd/text.tokens "
      "--run-dir run --overwrite ";
  const auto refused = [&](const std::string& make, std::initializer_list<const char*> words) {
    expect_refused("rm -rf elsewhere; mkdir elsewhere; " + make + "; $MPIEXEC -n 1 " + rank +
                       ": -n 1 -wdir $PWD/elsewhere " + rank,
                   words);
  };
  const auto host = host_name();
  const std::string path = "/proc/self/cwd/text.tokens";
  // As many tokens, and others.
  refused("tr e o <text.txt >other.txt; $TRIREME tokenize other.txt --output elsewhere/text.tokens",
          {"rank 1 on", host.c_str(), path.c_str(), "hash of its contents", "instead of"});
  refused(
      "head -c 5000 text.txt >other.txt; "
      "$TRIREME tokenize other.txt --output elsewhere/text.tokens",
      {"rank 1 on", path.c_str(), "tokens 5001 instead of 9001"});
  // Without hashes, one token of 9,001.
  refused(
      "cp text.tokens elsewhere; for i in . elsewhere; do for at in 72 240; do "
      "dd if=/dev/zero of=$i/text.tokens bs=1 seek=$at count=16 conv=notrunc; done; done; "
      "printf a | dd of=elsewhere/text.tokens bs=1 seek=9000 conv=notrunc",
      {"rank 1 on", path.c_str(), "hash of blocks of its contents"});
}

// Sample 2 of a step of 12 goes to data rank 0, sample 3 to data rank 1, which alone meets the
// broken token: in step 6 while training, or in the first evaluation.
TEST_F(GridInput, AnErrorOnOneRankAloneEndsAllWithACheckpoint) {
  const std::string run =
      "train deck.toml data.order=sequential data.path=hurt.tokens "
      "checkpoint.every_steps=0 --overwrite --run-dir ";
  break_token((12 * 5 + 3) * 16 + 5);
  expect_refused(on(2, run + "early zero.stage=3"), {"rank 1: ", "hurt.tokens", "65535"});
  EXPECT_TRUE(std::filesystem::exists(folder / "early/checkpoints/step-00000005"));

  break_token(9001 * 8 / 10 + 3 * 16 + 5);
  expect_refused(on(2, run + "late zero.stage=3"), {"rank 1: ", "hurt.tokens", "65535"});
  EXPECT_TRUE(std::filesystem::exists(folder / "late/checkpoints/step-00000006"));
  const auto outcome = nlohmann::json::parse(contents_of(folder / "late/outcome.json"));
  EXPECT_EQ(outcome.at("status"), "failed");

  const auto again = here(on(2, "train deck.toml zero.stage=3 --run-dir late --restart latest"));
  EXPECT_EQ(again.code, 0) << again.err;
}

// Every rank sees the same norms, so every rank would say it.
TEST_F(GridInput, StepsThatAreNotFiniteAreReportedOnce) {
  expect_refused(on(4,
                    "train deck.toml parallel.pipe=2 parallel.seq=2 zero.stage=3 --run-dir wild "
                    "optimizer.lr=1000 schedule.shape=constant train.steps=50"),
                 {"5 steps in a row were skipped"});
}

}  // namespace
}  // namespace trireme
