// Saving behind training: what is written is the state as it was, a failure is every rank's, and
// the next save is as good as any.
#include "lib/train/state_saver.hpp"

#include <gtest/gtest.h>

#include "lib/comm/agree.hpp"
#include "tests/parallel/saved_training.hpp"

namespace trireme {

using test::arrays_in;
using Training = test::SavedTraining;

TEST(StateSaver, WritesTheStateAsItWasWhileTrainingGoesOn) {
  for (const char* backend : {"", "fenced"}) {
    auto p = test::saved_case();
    if (*backend) {
      p.backend = backend;
      p.compute = DType::f32;
    }
    SCOPED_TRACE(test::name_of(p));
    if (!test::next_case(test::name_of(p))) return;
    Training run(p);
    run.steps(2);
    const auto at_once = run.saver.save(Training::meta(2));

    run.saver.begin(Training::meta(3));  // of the same state
    run.steps(2);
    const auto behind = run.saver.finish();
    const auto later = run.saver.save(Training::meta(4));

    EXPECT_FALSE(run.saver.busy());
    EXPECT_EQ(CheckpointReader(behind).meta().updates, CheckpointReader(at_once).meta().updates);
    EXPECT_TRUE(arrays_in(behind) == arrays_in(at_once));
    EXPECT_FALSE(arrays_in(later) == arrays_in(at_once));

    // The thread that writes may be done before a step changes weights: other weights, three times.
    for (int n = 5; !*backend && n < 11; n += 2) {
      const auto before = run.saver.save(Training::meta(n));
      run.saver.begin(Training::meta(n + 1));
      run.trainer->store().initialize(static_cast<std::uint64_t>(n), 1);
      EXPECT_TRUE(arrays_in(run.saver.finish()) == arrays_in(before));
    }
    test::meet();
  }
}

TEST(StateSaver, AFailureBehindTrainingIsEveryRanks) {
  auto p = test::saved_case();
  if (!test::next_case(test::name_of(p))) return;
  Training run(p);
  run.steps(1);
  {
    const test::FullDiskOfLastRank full;
    run.saver.begin(Training::meta(1));
    run.steps(1);
    EXPECT_THROW(run.saver.finish(), SharedError);
  }

  EXPECT_FALSE(run.saver.busy());
  test::meet();
  if (test::world().rank() == 0) {
    EXPECT_TRUE(std::filesystem::is_empty(run.checkpoints));
  }
  test::meet();
  run.saver.begin(Training::meta(2));
  EXPECT_TRUE(std::filesystem::exists(run.saver.finish() / manifest_name));
  test::meet();
}

TEST(StateSaver, WritesAndRemovesNothingWhereTheDirectoryIsAnothersNow) {
  auto p = test::saved_case();
  if (!test::next_case(test::name_of(p))) return;
  Training run(p);
  run.steps(1);
  bool mine = true;
  StateSaver saver(run.trainer->store(), run.trainer->axes(), run.checkpoints,
                   [&] { require(mine, "another's"); });
  saver.begin(Training::meta(1));
  mine = false;
  EXPECT_THROW(saver.finish(), SharedError);
  EXPECT_THROW(saver.save(Training::meta(1)), SharedError);
  test::meet();
  EXPECT_FALSE(std::filesystem::exists(run.checkpoints / "step-00000001"));
  EXPECT_TRUE(
      std::filesystem::exists(run.checkpoints / ".step-00000001.partial" / "rank-00000.h5"));
  test::meet();
}

TEST(StateSaver, ASaverThatEndsEarlyLeavesNothingThatIsTakenForACheckpoint) {
  auto p = test::saved_case();
  if (!test::next_case(test::name_of(p))) return;
  Training run(p);
  run.steps(1);
  {
    StateSaver early(run.trainer->store(), run.trainer->axes(), run.checkpoints);
    early.begin(Training::meta(1));
  }
  test::meet();
  EXPECT_FALSE(std::filesystem::exists(run.checkpoints / "step-00000001"));
  test::meet();
  EXPECT_TRUE(std::filesystem::exists(run.saver.save(Training::meta(1)) / manifest_name));
  test::meet();
}

}  // namespace trireme
