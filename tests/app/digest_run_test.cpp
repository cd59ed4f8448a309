// run.digest_every and run.replay_every as their users see them.
#include <fmt/format.h>

#include "tests/app/grid_training.hpp"

namespace trireme {
namespace {

class DigestRun : public GridTraining {
 protected:
  std::string digests(const std::string& run) {
    return contents_of(folder.path() / run / "digests.csv");
  }
};

TEST_F(DigestRun, RowsAreThoseOfAnyGridAndGoOnAfterARestart) {
  const std::string exact =
      "run.exactness=invariant run.exact_chunk=4 run.digest_every=2 schedule.shape=constant ";
  const auto run = [&](const GridCase& grid, const std::string& arguments) {
    const auto r = here(train(grid, exact + arguments));
    ASSERT_EQ(r.code, 0) << r.err;
  };
  run({1, ""}, "--run-dir whole");
  run({4, "parallel.pipe=2 parallel.seq=2 zero.stage=3"}, "--run-dir moved train.steps=6");
  ASSERT_EQ(here("rm -r moved/checkpoints/step-00000006").code, 0);  // goes back to step 4
  run({2, "zero.stage=2"}, "--run-dir moved --restart latest run.replay_every=3");

  EXPECT_EQ(digests("moved"), digests("whole"));
  EXPECT_EQ(std::ranges::count(digests("whole"), '\n'), 1 + 6);
  EXPECT_EQ(losses("moved"), losses("whole"));
}

// A later run without digests keeps none of steps that it makes anew.
TEST_F(DigestRun, RowsPastARestartAreDropped) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir run run.digest_every=2").code, 0);
  ASSERT_EQ(here("rm -r run/checkpoints/step-00000008 run/checkpoints/step-00000012").code, 0);
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir run --restart latest train.steps=8").code, 0);
  EXPECT_EQ(std::ranges::count(digests("run"), '\n'), 1 + 2);
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir run --overwrite train.steps=2").code, 0);
  EXPECT_EQ(here("test -e run/digests.csv").code, 1);
}

}  // namespace
}  // namespace trireme
