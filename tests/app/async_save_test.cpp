// Checkpoints that are written while training goes on are those that training would have waited
// for.
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
