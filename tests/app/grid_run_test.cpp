// Runs on grids as their users see them: restarts, checkpoints that one rank reads, signals.
#include <fmt/format.h>

#include "tests/app/grid_training.hpp"

namespace trireme {
namespace {

const GridCase all_axes{4, "parallel.pipe=2 parallel.seq=2 zero.stage=3"};
const GridCase in_chunks{2, "parallel.pipe=2 parallel.schedule=interleaved parallel.chunks=2"};
const GridCase in_halves{2, "parallel.pipe=2 parallel.schedule=zero-bubble"};

class GridRestart : public GridTraining, public testing::WithParamInterface<GridCase> {};

// Dropout, accumulation, AdamW, an evaluation before and after the checkpoint.
TEST_P(GridRestart, EqualsTheUninterruptedRun) {
  const auto whole = here(train(GetParam(), "--run-dir whole"));
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(here("cp -r whole cut && rm -r cut/checkpoints/step-00000008 "
                 "cut/checkpoints/step-00000012")
                .code,
            0);

  const auto cut = here(train(GetParam(), "--run-dir cut --restart latest"));

  ASSERT_EQ(cut.code, 0) << cut.err;
  EXPECT_EQ(count(cut.err, "restarting from"), 1) << cut.err;
  EXPECT_EQ(losses("cut"), losses("whole"));
  EXPECT_EQ(contents_of(folder / "cut/evaluation.csv"),
            contents_of(folder / "whole/evaluation.csv"));
  const auto weights = arrays("whole", "00000012");
  EXPECT_FALSE(weights.empty());
  EXPECT_EQ(arrays("cut", "00000012"), weights);
  EXPECT_LT(row_of("whole/history.csv")[2], row_of("whole/history.csv", 0)[2]);
}

INSTANTIATE_TEST_SUITE_P(
    Grids, GridRestart,
    testing::Values(all_axes, GridCase{4, "parallel.data=2 parallel.seq=2 zero.stage=1"},
                    GridCase{4, "parallel.pipe=2 zero.stage=2 precision.compute=bf16"},
                    GridCase{2, "parallel.seq=2 zero.stage=3 precision.reduce=bf16"}, in_chunks,
                    in_halves),
    [](const auto& info) { return std::to_string(info.index); });

class GridRun : public GridTraining {};

// In chunks a rank may begin a microbatch that another cannot begin before it has this one's work:
// what is compared between ranks then must not wait for all of them.
TEST_F(GridRun, LabelsAreComparedInChunksToo) {
  const GridCase grid{4, "parallel.pipe=4 parallel.schedule=interleaved parallel.chunks=2"};
  const auto r = here(train(grid,
                            "--run-dir run model.layers=8 train.batch=8 train.microbatch=1 "
                            "run.debug=true train.steps=2 run.hang_timeout=20"));
  EXPECT_EQ(r.code, 0) << r.err;
}

// 112 samples in microbatches of 3: four data ranks have 30, 28, 27 and 27 of them, in programs of
// one microbatch each, the last of which two ranks have none of.
TEST_F(GridRun, OneRankReadsItsCheckpointAndGetsTheLossThatTheRunLogged) {
  for (const GridCase& grid : {all_axes, GridCase{4, "zero.stage=3"},
                               GridCase{2, "parallel.pipe=2 zero.stage=1"}, in_chunks, in_halves}) {
    const auto trained = here(train(grid, "--run-dir run --overwrite"));
    ASSERT_EQ(trained.code, 0) << trained.err;
    const auto logged = row_of("run/evaluation.csv");

    const auto again = here("$TRIREME evaluate run");

    ASSERT_EQ(again.code, 0) << again.err;
    double loss = 0, perplexity = 0;
    int step = 0, targets = 0;
    ASSERT_EQ(std::sscanf(again.out.c_str(), "step %d: loss %lf, perplexity %lf, over %d", &step,
                          &loss, &perplexity, &targets),
              4)
        << again.out;
    EXPECT_EQ(step, 12);
    EXPECT_EQ(targets, 112 * 16);
    // Printed with six digits; products of other shapes round otherwise.
    EXPECT_NEAR(loss, logged[2], 3e-6 * logged[2]) << grid.overrides;

    const auto text = here("$TRIREME generate run --prompt the --tokens 8");
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.out.substr(0, 3), "the");
    const auto inspected = here("$TRIREME inspect run --verify");
    EXPECT_EQ(inspected.code, 0) << inspected.out << inspected.err;
    EXPECT_NE(inspected.out.find("blocks.3.qkv.weight"), std::string::npos) << inspected.out;
  }
}

// A restart in another schedule goes on with the same bits: checkpoints know parameters.
TEST_F(GridRun, SchedulesOfOnePipelineHaveTheSameBits) {
  const GridCase usual{2, "parallel.pipe=2"};
  ASSERT_EQ(here(train(usual, "--run-dir whole")).code, 0);
  ASSERT_EQ(here(train(in_chunks, "--run-dir cut")).code, 0);
  ASSERT_EQ(here("rm -r cut/checkpoints/step-00000008 cut/checkpoints/step-00000012").code, 0);
  ASSERT_EQ(here(train(in_halves, "--run-dir cut --restart latest")).code, 0);
  EXPECT_EQ(losses("cut"), losses("whole"));
  EXPECT_EQ(arrays("cut", "00000012"), arrays("whole", "00000012"));
  EXPECT_EQ(contents_of(folder / "cut/evaluation.csv"),
            contents_of(folder / "whole/evaluation.csv"));
}

// Rounding alone tells a grid's first steps from one rank's.
TEST_F(GridRun, LearnsWhatOneRankLearns) {
  const std::string steps = "train.steps=4 evaluate.every_steps=0 ";
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir one " + steps).code, 0);
  for (const GridCase& grid :
       {all_axes, GridCase{2, "parallel.data=2 parallel.seq=1 zero.stage=3"}}) {
    ASSERT_EQ(here(train(grid, "--run-dir run --overwrite " + steps)).code, 0);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(row_of("run/history.csv", i)[2], row_of("one/history.csv", i)[2], 2e-5)
          << grid.overrides << ", step " << i + 1;
  }
}

// A checkpoint belongs to no grid. Fresh moments or other samples would show at once. It is of a
// step that is evaluated, too: that row is neither lost nor written twice.
TEST_F(GridRun, RestartsOnOtherGrids) {
  const std::string steps = "train.steps=8 evaluate.every_steps=2 ";
  ASSERT_EQ(here(train(all_axes, "--run-dir whole " + steps)).code, 0);
  ASSERT_EQ(here("rm -r whole/checkpoints/step-00000008").code, 0);
  for (const GridCase& grid : {GridCase{1, ""}, GridCase{2, "zero.stage=1"},
                               GridCase{2, "parallel.seq=2"}, GridCase{4, "parallel.pipe=4"}}) {
    ASSERT_EQ(here("rm -rf run && cp -r whole run").code, 0);

    const auto cut = here(train(grid, "--run-dir run --restart latest " + steps));

    ASSERT_EQ(cut.code, 0) << grid.overrides << cut.err;
    EXPECT_EQ(count(cut.err, "restarting from"), 1) << cut.err;
    EXPECT_EQ(here("test -d run/checkpoints/step-00000008").code, 0);
    for (std::size_t i = 4; i < 8; ++i) {
      EXPECT_EQ(row_of("run/history.csv", i)[0], static_cast<double>(i + 1)) << grid.overrides;
      EXPECT_NEAR(row_of("run/history.csv", i)[2], row_of("whole/history.csv", i)[2], 2e-5)
          << grid.overrides << ", step " << i + 1;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const auto found = row_of("run/evaluation.csv", i), was = row_of("whole/evaluation.csv", i);
      EXPECT_EQ(found[0], was[0]) << grid.overrides;
      EXPECT_NEAR(found[2], was[2], 2e-5) << grid.overrides << ", step " << was[0];
    }
    EXPECT_EQ(row_of("run/evaluation.csv"), row_of("run/evaluation.csv", 3)) << grid.overrides;
  }
}

TEST_F(GridRun, ASignalToOneRankStopsAll) {
  const std::string steps = "train.steps=100000 evaluate.every_steps=0 checkpoint.every_steps=0 ";
  const auto r = here(train({2, "zero.stage=1"}, "--run-dir run " + steps) + "& p=$!; " +
                      until_steps("run", 3) +
                      "kill -TERM $(grep processes.by.rank run/log | grep -o [0-9]*$); wait $p");

  EXPECT_NE(r.err.find("a signal asked for it"), std::string::npos) << r.err;
  const auto outcome = nlohmann::json::parse(contents_of(folder / "run/outcome.json"));
  EXPECT_EQ(outcome.at("status"), "stopped") << r.err;
}

// Each rank reads other files of a checkpoint than the others.
TEST_F(GridRun, DamageThatAnyRankFindsIsSkipped) {
  const GridCase grid{2, "zero.stage=3"};
  ASSERT_EQ(here(train(grid, "--run-dir whole train.steps=8")).code, 0);
  for (const char* shard : {"rank-00000.h5", "rank-00001.h5"}) {
    ASSERT_EQ(here("rm -rf run && cp -r whole run && printf x | dd conv=notrunc bs=1 seek=9000 "
                   "of=run/checkpoints/step-00000008/" +
                   std::string(shard))
                  .code,
              0);

    const auto r = here(train(grid, "--run-dir run --restart latest train.steps=8"));

    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(count(r.err, "step-00000008 is damaged: " + std::string(shard)), 1) << r.err;
    EXPECT_EQ(arrays("run", "00000008"), arrays("whole", "00000008"));
  }
}

// bf16 on its way alone: the loss of step 1 is the same, that of later steps nearly.
TEST_F(GridRun, GradientsMayTravelAsBf16) {
  const GridCase grid{2, "zero.stage=3"};
  ASSERT_EQ(here(train(grid, "--run-dir wide train.steps=4")).code, 0);
  ASSERT_EQ(here(train(grid, "--run-dir narrow train.steps=4 precision.reduce=bf16")).code, 0);

  const auto wide = row_of("wide/history.csv"), narrow = row_of("narrow/history.csv");
  EXPECT_EQ(row_of("narrow/history.csv", 0)[2], row_of("wide/history.csv", 0)[2]);
  EXPECT_NE(narrow[2], wide[2]);
  EXPECT_NEAR(narrow[2], wide[2], 0.02);
  EXPECT_LT(narrow[8], wide[8]);  // bytes sent
}

TEST_F(GridRun, StopsWithACheckpointWhenTheLauncherIsAskedTo) {
  const std::string same = "schedule.shape=constant checkpoint.every_steps=0 ";
  const auto stopped = here(train(all_axes, "--run-dir stopped train.steps=1000000 " + same) +
                            "& p=$!; " + until_steps("stopped", 3) + "kill -TERM $p; wait $p");

  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_EQ(count(stopped.err, "--restart latest"), 1) << stopped.err;
  const auto step = static_cast<int>(row_of("stopped/history.csv")[0]);
  const auto steps = same + "train.steps=" + std::to_string(step + 4);
  const auto r = here(train(all_axes, "--run-dir stopped --restart latest " + steps));
  ASSERT_EQ(r.code, 0) << r.err;
  ASSERT_EQ(here(train(all_axes, "--run-dir whole " + steps)).code, 0);
  EXPECT_EQ(losses("stopped"), losses("whole"));
  EXPECT_EQ(row_of("stopped/history.csv")[0], step + 4);
}

// The signal comes early in the third step, which takes half a second and in which a rule freezes
// one block and thaws another. What was computed of it leaves nothing behind.
TEST_F(GridRun, AStepThatIsTooLongForASignalIsDropped) {
  folder.write("deck.toml", std::string(grid_deck) +
                                "[[freeze]]\npattern = \"blocks.0.*\"\nfrom_step = 2\n"
                                "[[freeze]]\npattern = \"blocks.2.*\"\nto_step = 2\n");
  const std::string slow =
      "train.batch=384 schedule.shape=constant checkpoint.every_steps=0 evaluate.every_steps=0 ";
  for (const GridCase& grid : {GridCase{2, "parallel.pipe=2"}, GridCase{2, "zero.stage=3"}}) {
    ASSERT_EQ(here("rm -rf stopped whole").code, 0);
    const auto stopped =
        here(train(grid, "--run-dir stopped train.steps=9 run.signal_grace=0.001 " + slow) +
             "& p=$!; " + until_steps("stopped", 2) +
             "sleep 0.1; kill -TERM $(grep processes.by.rank "
             "stopped/log | grep -o [0-9]*$); wait $p");

    EXPECT_EQ(stopped.code, 75) << stopped.err;
    // Which step it is depends on the machine.
    const auto rows = static_cast<int>(row_of("stopped/history.csv")[0]);
    EXPECT_GE(rows, 2);
    EXPECT_EQ(count(stopped.err, fmt::format("step {} is dropped", rows + 1)), 1) << stopped.err;
    const auto steps = slow + "train.steps=9";
    const auto r = here(train(grid, "--run-dir stopped --restart latest " + steps));
    ASSERT_EQ(r.code, 0) << r.err;
    ASSERT_EQ(here(train(grid, "--run-dir whole " + steps)).code, 0);
    EXPECT_EQ(losses("stopped"), losses("whole"));
    EXPECT_EQ(arrays("stopped", "00000009"), arrays("whole", "00000009"));
  }
}

// Three changes of the grid, none at an evaluation, and other microbatches: as if there were none.
TEST_F(GridRun, InvariantBitsOutliveChangesOfTheGrid) {
  const std::string exact = "run.exactness=invariant run.exact_chunk=4 schedule.shape=constant ";
  const auto run = [&](const GridCase& grid, const std::string& arguments) {
    const auto r = here(train(grid, exact + arguments));
    ASSERT_EQ(r.code, 0) << r.err;
  };
  run({1, "train.microbatch=6"}, "--run-dir whole");
  run({4, "parallel.pipe=2 parallel.seq=2 zero.stage=3"}, "--run-dir moved train.steps=5");
  run({2, "zero.stage=2"}, "--run-dir moved --restart latest train.steps=7");
  run({4, "parallel.seq=4 zero.stage=1 train.microbatch=12"},
      "--run-dir moved --restart latest train.steps=10");
  run({1, ""}, "--run-dir moved --restart latest");

  EXPECT_EQ(losses("moved"), losses("whole"));
  EXPECT_EQ(arrays("moved", "00000012"), arrays("whole", "00000012"));
  // Beside them one at the end of each process.
  const auto evaluations = contents_of(folder / "moved/evaluation.csv");
  std::istringstream rows(contents_of(folder / "whole/evaluation.csv"));
  for (std::string row; std::getline(rows, row);) EXPECT_EQ(count(evaluations, row), 1) << row;
}

// Within a job, mpiexec starts its helpers with srun: a task a node.
TEST_F(GridRun, MpiexecWorksWithinAJob) {
  const auto r = here("SLURM_STEP_NUM_TASKS=1 " + train({2, "zero.stage=1"}, "train.steps=1"));
  EXPECT_EQ(r.code, 0) << r.err;
}

class GridSignals : public GridTraining {
 protected:
  GridSignals() {
    folder.write("rank.sh",
                 "#!/bin/bash\n"
                 "echo $$ >pid.${PMI_RANK:-$OMPI_COMM_WORLD_RANK}\n"
                 "exec \"$TRIREME\" \"$@\"\n");
  }
  // The last rank gets the signal after a few steps and a checkpoint: the job fails and is gone
  // within seconds. The launcher may be gone first, before it printed all that its ranks said.
  void signalled(const GridCase& grid, const std::string& signal) {
    const auto r = here(
        "rm -rf run pid.*; $MPIEXEC -n " + std::to_string(grid.ranks) +
        " bash rank.sh train deck.toml train.steps=1000000 --run-dir run " + grid.overrides +
        " & p=$!; " + until_steps("run", 5) +
        "until cat run/checkpoints/step-*/manifest.json >/dev/null 2>&1; do sleep 0.01; done; "
        "kill -" +
        signal + " $(cat pid." + std::to_string(grid.ranks - 1) +
        "); SECONDS=0; wait $p; code=$?; "
        "alive() { for i in pid.*; do kill -0 $(cat $i) 2>/dev/null && return; done; false; }; "
        "while alive; do sleep 0.05; done; echo $SECONDS; exit $code");
    EXPECT_NE(r.code, 0);
    EXPECT_NE(r.code, 124) << "it hung";
    EXPECT_LT(std::atoi(r.out.c_str()), 15) << r.out;
  }
};

// Who waits for it is named, once.
TEST_F(GridSignals, EndsWhenARankIsStuck) {
  signalled({2, "parallel.pipe=2 run.hang_timeout=5"}, "STOP");

  const auto log = contents_of(folder / "run/log");
  EXPECT_EQ(count(log, "is not finished after 5 s"), 1) << log;
  EXPECT_NE(log.find("error rank 0: "), std::string::npos) << log;
}

// Neither has it a deck by then.
TEST_F(GridSignals, EndsWhenARankIsStuckAtTheStart) {
  folder.write("stuck.sh",
               "#!/bin/bash\n"
               "if [ ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} = 1 ]; then kill -STOP $$; fi\n"
               "exec \"$TRIREME\" \"$@\"\n");
  const auto r =
      here("$MPIEXEC -n 2 bash stuck.sh train deck.toml parallel.pipe=2 run.hang_timeout=2");

  EXPECT_NE(r.code, 0);
  EXPECT_NE(r.code, 124) << "it hung";
  EXPECT_NE(r.err.find("the start of MPI is not finished after 2 s"), std::string::npos) << r.err;
}

// Its checkpoints are good.
TEST_F(GridSignals, EndsWhenARankDies) {
  for (const GridCase& grid : {GridCase{2, "parallel.pipe=2"}, all_axes}) {
    const auto last = std::to_string(grid.ranks - 1);

    signalled(grid, "KILL");

    // The launcher names the process, the run's log says which rank it was.
    const auto pid = contents_of(folder / ("pid." + last));
    EXPECT_NE(contents_of(folder / "run/log").find(pid.substr(0, pid.size() - 1)),
              std::string::npos);
    EXPECT_EQ(here("$TRIREME inspect run --verify").code, 0);
    const auto step = static_cast<int>(row_of("run/history.csv")[0]);
    const auto again =
        here(train(grid, "--run-dir run --restart latest train.steps=" + std::to_string(step + 2)));
    EXPECT_EQ(again.code, 0) << again.err;
  }
}

}  // namespace
}  // namespace trireme
