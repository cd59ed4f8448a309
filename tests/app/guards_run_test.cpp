// Whole runs whose blocks of memory stand between guards, which end what reads or writes past one.
#include "tests/app/grid_training.hpp"

namespace trireme {
namespace {

class GuardedTraining : public GridTraining {
 protected:
  // Steps, evaluations and checkpoints end as they do without guards, and have the same bits.
  void check(const GridCase& grid) {
    SCOPED_TRACE(grid.overrides);
    ASSERT_EQ(here(train(grid, "--run-dir free --overwrite")).code, 0);
    const auto r = here(train(grid, "--run-dir guarded --overwrite run.guards=true"), 120);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(losses("guarded"), losses("free"));
    EXPECT_EQ(arrays("guarded", "00000012"), arrays("free", "00000012"));
  }
};

TEST_F(GuardedTraining, FindNothingOnOneRank) {
  for (const auto* more :
       {"", " precision.compute=bf16", " model.recompute=block checkpoint.async=false"})
    check({1, std::string("run.backend=host") + more});
}

TEST_F(GuardedTraining, FindNothingOnRef) {
  check({1, "run.backend=ref train.steps=12"});
}

TEST_F(GuardedTraining, FindNothingOnGrids) {
  check({2, "parallel.seq=2 zero.stage=3"});
  check({4, "parallel.pipe=2 parallel.data=2 zero.stage=3"});
}

}  // namespace
}  // namespace trireme
