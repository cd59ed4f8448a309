// Checkpoints that are written while training goes on are those that training would have waited
// for.
#include <fmt/format.h>

#include "tests/app/grid_training.hpp"

namespace trireme {
namespace {

class AsyncSave : public GridTraining {};

TEST_F(AsyncSave, WritesWhatASaveThatTrainingWaitsForWrites) {
  for (const GridCase& grid : {GridCase{1, ""}, GridCase{2, "zero.stage=3"},
                               GridCase{4, "parallel.pipe=2 parallel.seq=2 zero.stage=1"}}) {
    SCOPED_TRACE(grid.overrides);
    const std::string often = " checkpoint.every_steps=3 ";
    ASSERT_EQ(here("rm -rf behind at_once").code, 0);
    ASSERT_EQ(here(train(grid, "--run-dir behind" + often)).code, 0);
    ASSERT_EQ(here(train(grid, "--run-dir at_once checkpoint.async=false" + often)).code, 0);

    for (const char* step : {"00000003", "00000006", "00000009", "00000012"})
      EXPECT_EQ(arrays("behind", step), arrays("at_once", step)) << step;
    EXPECT_EQ(losses("behind"), losses("at_once"));
  }
}

// However fast the disk: one that is due while the one before is on its way waits for it.
TEST_F(AsyncSave, OneAfterTheOther) {
  const auto r = here(train({2, ""}, "--run-dir run checkpoint.every_steps=1"));

  ASSERT_EQ(r.code, 0) << r.err;
  for (int step = 1; step <= 12; ++step)
    EXPECT_EQ(here("$TRIREME inspect --verify run/checkpoints/step-000000" +
                   std::string(step < 10 ? "0" : "") + std::to_string(step))
                  .code,
              0)
        << step;
}

// One rank has no room: said once, and the last save fails for all.
TEST_F(AsyncSave, AFailureIsSaidOnce) {
  const auto r = here("ulimit -S -f 6000; " +  // MPI's own shared memory needs 4
                      train({2, "zero.stage=1"},
                            "--run-dir run model.layers=1 model.width=384 "
                            "checkpoint.on_error=continue checkpoint.every_steps=2"));

  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_EQ(count(r.err, "step 2: no checkpoint"), 1) << r.err;
}

// A run that ends by an error finishes what is on its way.
TEST_F(AsyncSave, ARunThatFailsKeepsTheCheckpointBefore) {
  for (const char* how : {"true", "false"}) {
    SCOPED_TRACE(how);
    const auto r = here(train({2, ""}, std::string("--overwrite --run-dir run ") +
                                           "checkpoint.every_steps=1 optimizer.lr=1000 "
                                           "optimizer.weight_decay=1000 schedule.warmup_steps=0 "
                                           "train.max_skipped=1 train.steps=100 checkpoint.async=" +
                                           how));

    EXPECT_EQ(r.code, 1) << r.err;
    EXPECT_NE(r.err.find("not finite"), std::string::npos) << r.err;
    std::istringstream rows(contents_of(folder / "run/history.csv"));
    int last = -1;  // the header
    for (std::string row; std::getline(rows, row);) ++last;
    const auto name = fmt::format("run/checkpoints/step-{:08}/manifest.json", last - 1);
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  }
}

// The copy is in the plan, and what can be spared is named.
TEST_F(AsyncSave, TakesTheMemoryThatThePlanSays) {
  const auto plan = [&](const std::string& more) {
    const auto r = here("$TRIREME plan deck.toml --ranks 2 --json " + more);
    EXPECT_EQ(r.code, 0) << r.err;
    return nlohmann::json::parse(r.out);
  };
  const auto with = plan("zero.stage=1"), without = plan("zero.stage=1 checkpoint.async=false");
  const auto& rank = with.at("ranks")[0];
  const auto copy = rank.at("peak_bytes_by_kind").at("snapshot").get<double>();

  EXPECT_NEAR(copy, rank.at("checkpoint_bytes").get<double>(), 256);
  EXPECT_EQ(rank.at("reserved_bytes").get<double>() - copy,
            without.at("ranks")[0].at("reserved_bytes").get<double>());
  const auto limit = without.at("reserved_bytes").dump();
  const auto r = here("$TRIREME plan deck.toml --ranks 2 zero.stage=1 --device-memory " + limit);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("checkpoint.async = false"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace trireme
