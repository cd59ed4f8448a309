// Saving behind training: what is written is the state as it was, a failure is every rank's, and
// the next save is as good as any.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <memory>

#include "kernels/open/open.hpp"
#include "lib/base/array_names.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/train/state_saver.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

test::ParityCase sharded(int n) {
  test::ParityCase p;
  p.grid = n == 4 ? Grid{2, 2, 1} : Grid{1, n, 1};
  if (n == 3) p.size = 24;
  p.zero.stage = 3;
  p.optimizer = OptimizerKind::adamw;
  p.steps = 6;
  return p;
}

struct Training {
  explicit Training(const test::ParityCase& c) : p(c) { trainer->store().initialize(3, 1); }
  // Rank 0's folder is everybody's.
  static std::string of_rank_0(std::string path) {
    test::world().broadcast(path);
    return path;
  }
  void steps(int n) {
    for (int s = 0; s < n; ++s, ++done)
      trainer->step(done, test::learning_rate(p), test::parity_step(p, *trainer, done));
  }
  static CheckpointMeta meta(std::int64_t step) {
    CheckpointMeta m;
    m.step = step;
    return m;
  }

  test::ParityCase p;
  ScratchFolder folder;
  std::filesystem::path checkpoints = of_rank_0(folder.path().string());
  std::unique_ptr<Backend> backend = open_backend(test::backend_of(p, true));
  Workspace workspace{*backend};
  std::unique_ptr<Trainer> trainer =
      std::make_unique<Trainer>(*backend, test::parity_axes(p), test::parity_setup(p));
  StateSaver saver{trainer->store(), trainer->axes(), checkpoints};
  int done = 0;
};

// All arrays of all parameters.
std::string content(const std::filesystem::path& checkpoint) {
  CheckpointReader reader(checkpoint);
  std::string all;
  for (const auto& p : reader.params()) {
    std::vector<std::string> arrays = reader.arrays_of(p.name);
    arrays.emplace_back(weights_array);
    for (const auto& array : arrays) {
      std::vector<std::byte> values(static_cast<std::size_t>(p.shape.count()) * bytes_of(p.dtype));
      reader.read(p.name, array, 0, p.shape.count(), values);
      all += p.name + array;
      all.append(reinterpret_cast<const char*>(values.data()), values.size());
    }
  }
  return all;
}

}  // namespace

TEST(StateSaver, WritesTheStateAsItWasWhileTrainingGoesOn) {
  for (const char* backend : {"", "fenced"}) {
    auto p = sharded(test::world().size());
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
    EXPECT_TRUE(content(behind) == content(at_once));
    EXPECT_FALSE(content(later) == content(at_once));

    // The thread that writes may be done before a step changes weights: other weights, three times.
    for (int n = 5; !*backend && n < 11; n += 2) {
      const auto before = run.saver.save(Training::meta(n));
      run.saver.begin(Training::meta(n + 1));
      run.trainer->store().initialize(static_cast<std::uint64_t>(n), 1);
      EXPECT_TRUE(content(run.saver.finish()) == content(before));
    }
    test::meet();
  }
}

TEST(StateSaver, AFailureBehindTrainingIsEveryRanks) {
  auto p = sharded(test::world().size());
  if (!test::next_case(test::name_of(p))) return;
  Training run(p);
  run.steps(1);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto limit_last_rank = [&](rlim_t bytes) {
    const rlimit now{bytes, before.rlim_max};
    if (test::world().rank() == test::world().size() - 1) setrlimit(RLIMIT_FSIZE, &now);
  };
  std::signal(SIGXFSZ, SIG_IGN);
  limit_last_rank(20000);
  run.saver.begin(Training::meta(1));
  run.steps(1);
  EXPECT_THROW(run.saver.finish(), SharedError);
  limit_last_rank(before.rlim_cur);

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
  auto p = sharded(test::world().size());
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
  auto p = sharded(test::world().size());
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
