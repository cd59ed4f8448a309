// The program from the outside: deck in, trained model out, restarted after every kind of end.
#include <gmock/gmock.h>

#include "lib/data/token_writer.hpp"
#include "lib/data/tokenizer.hpp"
#include "tests/app/training.hpp"

namespace trireme {

TEST_F(Training, WritesAllThatARunShould) {
  const auto r = here("$TRIREME train deck.toml");

  ASSERT_EQ(r.code, 0) << r.err;
  const auto history = contents_of(folder / "runs/deck/history.csv");
  EXPECT_EQ(std::ranges::count(history, '\n'), 13);
  EXPECT_EQ(std::ranges::count(contents_of(folder / "runs/deck/evaluation.csv"), '\n'), 3);
  const auto outcome = nlohmann::json::parse(contents_of(folder / "runs/deck/outcome.json"));
  EXPECT_EQ(outcome.at("status"), "done");
  EXPECT_EQ(outcome.at("step"), 12);
  EXPECT_FALSE(contents_of(folder / "runs/deck/log").empty());
  // The effective deck is a deck.
  EXPECT_EQ(here("$TRIREME check runs/deck/effective.toml").code, 0);
}

TEST_F(Training, SaysWhereItWouldRun) {
  const std::string ask =
      "cp deck.toml other && $TRIREME train other run.machine=machines/x.toml --print-run-dir ";
  EXPECT_EQ(here(ask).out, "runs/other\n");
  EXPECT_EQ(here("N=7; export N; " + ask + "--overwrite --run-dir '${N} b'").out, "7 b\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
  EXPECT_EQ(here(ask + "model.width=wide").code, 1);
}

TEST_F(Training, ACheckpointCountsSamplesAndTokens) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir run").code, 0);
  const auto path = folder.path() / "run/checkpoints/step-00000012/manifest.json";
  const auto meta = nlohmann::json::parse(contents_of(path)).at("content").at("checkpoint");

  EXPECT_EQ(meta.at("samples"), 12 * 4);
  EXPECT_EQ(meta.at("tokens"), 12 * 4 * 16);
}

TEST_F(Training, RestartedRunEqualsTheUninterrupted) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir whole").code, 0);
  ASSERT_EQ(
      here("cp -r whole cut && rm -r cut/checkpoints/step-00000012 cut/checkpoints/step-00000008")
          .code,
      0);

  const auto r = here("$TRIREME train deck.toml --run-dir cut --restart latest");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("step 4"), std::string::npos) << r.err;
  EXPECT_EQ(losses("cut"), losses("whole"));
  EXPECT_EQ(arrays("cut", "00000012"), arrays("whole", "00000012"));
}

TEST_F(Training, GoesOnAfterBeingKilled) {
  const std::string steps = " train.steps=600 checkpoint.every_steps=8";
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir whole" + steps).code, 0);
  // Killed as soon as the second checkpoint is there.
  here("$TRIREME train deck.toml --run-dir killed" + steps +
       " & p=$!; while [ ! -e killed/checkpoints/step-00000016/manifest.json ]; do sleep 0.01; "
       "done; kill -9 $p; wait $p");
  const auto outcome = nlohmann::json::parse(contents_of(folder / "killed/outcome.json"));
  ASSERT_EQ(outcome.at("status"), "running");

  const auto r = here("$TRIREME train deck.toml --run-dir killed --restart latest" + steps);

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(losses("killed"), losses("whole"));
  EXPECT_EQ(arrays("killed", "00000600"), arrays("whole", "00000600"));
}

TEST_F(Training, StopsWithACheckpointWhenAskedTo) {
  ASSERT_EQ(
      here("$TRIREME train deck.toml --run-dir whole train.steps=400 checkpoint.every_steps=0")
          .code,
      0);
  const auto stopped = here(
      "$TRIREME train deck.toml --run-dir stopped train.steps=400 checkpoint.every_steps=0 & p=$!; "
      "while [ $(cat stopped/history.csv 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; "
      "kill -TERM $p; wait $p");

  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_NE(stopped.err.find("--restart latest"), std::string::npos) << stopped.err;
  const auto r = here(
      "$TRIREME train deck.toml train.steps=400 checkpoint.every_steps=0 --run-dir stopped "
      "--restart latest");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(losses("stopped"), losses("whole"));
  EXPECT_EQ(arrays("stopped", "00000400"), arrays("whole", "00000400"));
}

TEST_F(Training, AFinishedRunIsNotRepeated) {
  ASSERT_EQ(here("$TRIREME train deck.toml").code, 0);

  const auto again = here("$TRIREME train deck.toml --restart latest");

  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.err.find("finished"), std::string::npos) << again.err;
}

TEST_F(Training, DamageIsSkippedForTheOlderCheckpoint) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir whole").code, 0);
  ASSERT_EQ(
      here("cp -r whole hurt && printf X | dd of=hurt/checkpoints/step-00000012/rank-00000.h5 "
           "bs=1 seek=9000 conv=notrunc")
          .code,
      0);

  const auto r = here("$TRIREME train deck.toml --run-dir hurt --restart latest");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("skipped"), std::string::npos) << r.err;
  EXPECT_EQ(arrays("hurt", "00000012"), arrays("whole", "00000012"));
}

TEST_F(Training, FineTuningTakesTheWeightsAlone) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir base train.steps=200").code, 0);

  const auto r =
      here("$TRIREME train deck.toml --run-dir tuned model.init_from=base train.steps=2");

  ASSERT_EQ(r.code, 0) << r.err;
  // Fresh weights begin at ln(256) = 5.5, these far below; step 2 is Adam's second update.
  EXPECT_LT(first_loss("tuned"), 4);
  const auto manifest =
      nlohmann::json::parse(contents_of(folder / "tuned/checkpoints/step-00000002/manifest.json"));
  EXPECT_EQ(manifest.at("content").at("checkpoint").at("updates").at("embedding.weight"), 2);
}

TEST_F(Training, WeightsOfF32StartARunInF64) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir base train.steps=4").code, 0);
  const std::string tune =
      "$TRIREME train deck.toml model.init_from=base train.steps=1 model.dropout=0 "
      "run.backend=ref --run-dir ";
  ASSERT_EQ(here(tune + "in32").code, 0);

  const auto r = here(tune + "in64 precision.compute=f64");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(first_loss("in64"), first_loss("in32"));
  EXPECT_NEAR(first_loss("in64"), first_loss("in32"), 1e-5);  // roundings of f32
  const auto restart = here(
      "$TRIREME train deck.toml --run-dir base --restart latest train.steps=5 "
      "run.backend=ref precision.compute=f64");
  EXPECT_NE(restart.code, 0);
  EXPECT_NE(restart.err.find("precision.compute"), std::string::npos) << restart.err;
}

// Going back leaves what came later out of the way, and nothing that is saved from then on is lost.
TEST_F(Training, GoingBackKeepsWhatIsSavedAfterwards) {
  ASSERT_EQ(here("$TRIREME train deck.toml --run-dir run").code, 0);

  const auto r = here(
      "$TRIREME train deck.toml --run-dir run --restart run/checkpoints/step-00000004 "
      "train.steps=6 checkpoint.keep_last=1");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "run/checkpoints/step-00000006"));
  EXPECT_TRUE(std::filesystem::exists(folder / "run/checkpoints/left-step-00000012"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run/checkpoints/step-00000012"));
}

TEST_F(Training, OverwriteReplacesARunOnlyWhenTheNewOneCanStart) {
  ASSERT_EQ(here("$TRIREME train deck.toml").code, 0);
  const auto before = contents_of(folder / "runs/deck/history.csv");

  EXPECT_NE(here("$TRIREME train deck.toml --overwrite model.context=5000").code, 0);
  EXPECT_EQ(contents_of(folder / "runs/deck/history.csv"), before);
  EXPECT_NE(here("$TRIREME train deck.toml --overwrite --restart latest").code, 0);
  EXPECT_EQ(contents_of(folder / "runs/deck/history.csv"), before);

  ASSERT_EQ(here("$TRIREME train deck.toml --overwrite train.steps=2").code, 0);
  EXPECT_EQ(std::ranges::count(contents_of(folder / "runs/deck/history.csv"), '\n'), 3);
}

TEST_F(Training, TwoProcessesCannotShareARunDirectory) {
  const auto r = here(
      "$TRIREME train deck.toml train.steps=4000 & p=$!; "
      "while [ ! -e runs/deck/outcome.json ]; do sleep 0.01; done; "
      "$TRIREME train deck.toml train.steps=4000 --restart latest; code=$?; kill -9 $p; wait $p; "
      "exit $code");

  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("another process"), std::string::npos) << r.err;
}

TEST_F(Training, TimeLimitStopsWithACheckpoint) {
  const auto r = here("$TRIREME train deck.toml train.steps=1000000 --time-limit 00:00:04", 20);

  EXPECT_EQ(r.code, 75) << r.err;
  EXPECT_THAT(r.err, testing::ContainsRegex(" steps in 00:00:0[0-3], ")) << "a second is left";
  EXPECT_NE(r.err.find("time limit"), std::string::npos) << r.err;
  EXPECT_FALSE(std::filesystem::is_empty(folder / "runs/deck/checkpoints"));
}

TEST_F(Training, AskedForACheckpointItWritesOneAndGoesOn) {
  const auto r = here(
      "$TRIREME train deck.toml train.steps=1500 checkpoint.every_steps=0 & p=$!; "
      "while [ $(cat runs/deck/history.csv 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; "
      "kill -USR1 $p; wait $p");

  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "runs/deck/checkpoints"),
                          std::filesystem::directory_iterator()),
            2);
}

TEST_F(Training, StepsThatAreNotFiniteStopTheRun) {
  // Decay by a factor of -99 a step: beyond f32 after 20 of them.
  const auto r =
      here("$TRIREME train deck.toml optimizer.lr=1000 schedule.shape=constant train.steps=50");

  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("5 steps in a row were skipped, the last at step "), std::string::npos)
      << r.err;
  const auto outcome = nlohmann::json::parse(contents_of(folder / "runs/deck/outcome.json"));
  EXPECT_EQ(outcome.at("status"), "failed");
}

// Tokens of bytes of which the first `masked` are no targets.
static void write_masked(const std::string& path, std::size_t masked) {
  TokenWriter file(path, ExistingFile::stays, 2, TargetMask::present);
  PackedTokens tokens;
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 2000; ++i) ids.push_back('a' + i % 7);
  tokens.append(ids, 2);
  tokens.targets.assign(ids.size(), 1);
  std::fill_n(tokens.targets.begin(), masked, 0);
  file.append(tokens);
  file.finish(256, 0, 1, bytes_tokenizer()->spec());
}

// A step is 4 samples of 16 tokens.
TEST_F(Training, StepsWithoutTargetsStopTheRunAsOthersThatAreSkipped) {
  write_masked(folder / "masked.tokens", 1000);
  const auto r = here(
      "$TRIREME train deck.toml data.path=masked.tokens data.order=sequential data.validation=0");

  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("5 steps in a row were skipped, the last at step 5 as none of its targets "
                       "counts"),
            std::string::npos)
      << r.err;
}

TEST_F(Training, StepsWithoutTargetsCountInNoRate) {
  write_masked(folder / "masked.tokens", 200);  // those of steps 1 to 3 end with token 192
  const auto r = here(
      "$TRIREME train deck.toml data.path=masked.tokens data.order=sequential data.validation=0");

  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream rows(contents_of(folder / "runs/deck/history.csv"));
  std::string row;
  std::getline(rows, row);
  for (int step = 1; std::getline(rows, row); ++step) {
    std::vector<std::string> fields;
    std::istringstream line(row);
    for (std::string field; std::getline(line, field, ',');) fields.push_back(field);
    EXPECT_EQ(fields.at(6) == "nan", step <= 3) << row;
  }
  const auto timing = nlohmann::json::parse(contents_of(folder / "runs/deck/timing.json"));
  EXPECT_EQ(timing.at("processes").at(0).at("tokens"), (12 - 3) * 64);
}

TEST_F(Training, StepsThatAreNotFiniteAreCountedAcrossARestart) {
  const std::string wild = "$TRIREME train deck.toml optimizer.lr=1000 schedule.shape=constant ";
  const auto last_of = [](const std::string& text) {
    const std::string_view before = "the last at step ";
    const auto at = text.find(before);
    return at == std::string::npos ? 0 : std::stoi(text.substr(at + before.size()));
  };
  const int last = last_of(here(wild + "train.steps=50 --run-dir whole").err);
  ASSERT_GT(last, 5);
  const auto until = std::to_string(last - 2);
  ASSERT_EQ(here(wild + "--run-dir run train.steps=" + until).code, 0);

  const auto r = here(wild + "--run-dir run train.steps=50 --restart latest");

  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(last_of(r.err), last) << r.err;
}

TEST_F(Training, GeneratesEvaluatesInspects) {
  ASSERT_EQ(here("$TRIREME train deck.toml").code, 0);

  const auto text = here("$TRIREME generate runs/deck --prompt the --tokens 20 --seed 4");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.substr(0, 3), "the");
  EXPECT_GE(text.out.size(), 4U);
  EXPECT_EQ(here("$TRIREME generate runs/deck --prompt the --tokens 20 --seed 4").out, text.out);

  const auto loss = here("$TRIREME evaluate runs/deck");
  ASSERT_EQ(loss.code, 0) << loss.err;
  EXPECT_NE(loss.out.find("loss "), std::string::npos) << loss.out;

  const auto inspected = here("$TRIREME inspect runs/deck --verify");
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_NE(inspected.out.find("blocks.0.qkv.weight"), std::string::npos) << inspected.out;
}

TEST_F(Training, PlansWithoutTouchingAnything) {
  const auto r = here("$TRIREME plan deck.toml --json");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_GT(nlohmann::json::parse(r.out).at("reserved_bytes"), 100000);
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
  EXPECT_NE(here("$TRIREME plan deck.toml --device-memory 1M").code, 0);
  // Its files may be elsewhere where the vocabulary is known.
  EXPECT_EQ(here("$TRIREME plan deck.toml data.path=none.tokens model.vocab=300").code, 0);
}

TEST_F(Training, LengthsThatDoNotFitAreWarnedOf) {
  const auto check = [&](const std::string& keys) {
    const auto r = here("$TRIREME check deck.toml " + keys);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out + r.err;
  };
  const auto sound = check("");
  EXPECT_EQ(sound.find("warning"), std::string::npos) << sound;
  EXPECT_NE(sound.find("M parameters, all trained, "), std::string::npos) << sound;
  const auto samples = std::stoll(sound.substr(sound.find("all trained, ") + 13));
  const auto epoch = [&](std::int64_t batch) {
    return check("train.microbatch=1 train.batch=" + std::to_string(batch));
  };
  EXPECT_EQ(epoch(samples).find("warning"), std::string::npos);
  EXPECT_NE(epoch(samples + 1).find("samples of an epoch"), std::string::npos);
  EXPECT_EQ(check("schedule.warmup_steps=12").find("warning"), std::string::npos);
  const auto long_rise = check("schedule.warmup_steps=24");
  EXPECT_NE(long_rise.find("schedule.warmup_steps = 24 is longer than the run of 12 steps: the "
                           "learning rate gets to 0.0015"),
            std::string::npos)
      << long_rise;
}

}  // namespace trireme
