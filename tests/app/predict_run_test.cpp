// `plan --machine`: what the command line says of times, and what it refuses.
#include <set>

#include "lib/io/run_tables.hpp"
#include "lib/predict/machine_file.hpp"
#include "tests/app/training.hpp"
#include "tests/support/machine.hpp"

namespace trireme {
namespace {

class PredictRun : public Training {
 protected:
  PredictRun() {
    auto m = test::plain_machine("host");
    m.source = "a test";
    m.disk_write = 1e6;
    folder.write("machine.toml", machine_text(m));
    m.products.clear();
    folder.write("poor.toml", machine_text(m));
    folder.write("wrong.toml", machine_text(m) + "[memery]\n");
  }
};

TEST_F(PredictRun, SaysWhatAStepTakes) {
  const auto r = here("$TRIREME plan deck.toml --ranks 2 --machine machine.toml --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto p = nlohmann::json::parse(r.out).at("predicted");

  EXPECT_GT(p.at("step_seconds"), 0);
  EXPECT_GT(p.at("exposed_seconds").at("shard"), 0);
  EXPECT_GT(p.at("checkpoint_seconds"), 0);
  EXPECT_GT(p.at("flop_utilisation"), 0);
  EXPECT_EQ(p.at("bubble"), 0);
}

// Of two ranks of a stage that hold the same, one speaks for its gradients: the other's host goes
// on to the agreement while its device computes.
TEST_F(PredictRun, NoDeviceLosesMoreThanTheStep) {
  folder.write("gpu.toml", machine_text(test::plain_machine("cuda")));
  const auto r = here(
      "$TRIREME plan deck.toml model.width=48 model.heads=3 run.backend=auto parallel.pipe=2 "
      "parallel.seq=2 zero.stage=0 --ranks 4 --machine gpu.toml --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto p = nlohmann::json::parse(r.out).at("predicted");
  EXPECT_LT(p.at("bubble"), 0.5);
  EXPECT_LT(p.at("exposed_seconds").at("all"), 0.5 * p.at("step_seconds").get<double>());
}

TEST_F(PredictRun, WritesTheStepAsARunTracesIt) {
  const auto r = here(
      "$TRIREME plan deck.toml --ranks 2 parallel.pipe=2 --machine machine.toml --trace t.json");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto events = nlohmann::json::parse(contents_of(folder / "t.json")).at("traceEvents");
  std::set<std::string> names;
  std::set<int> processes;
  for (const auto& e : events) {
    names.insert(e.at("name"));
    processes.insert(static_cast<int>(e.at("pid")));
  }

  EXPECT_EQ(processes.size(), 2U);  // a stage each
  for (const char* name : {"forward", "backward", "send", "receive", "step"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST_F(PredictRun, RefusesByNameWhatAMachineFileLacks) {
  const auto poor = here("$TRIREME plan deck.toml --machine poor.toml");
  EXPECT_EQ(poor.code, 1);
  EXPECT_NE(poor.err.find("has no [[product]]"), std::string::npos) << poor.err;

  const auto wrong = here("$TRIREME plan deck.toml --machine wrong.toml");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.err.find("there is no section [memery]"), std::string::npos) << wrong.err;

  EXPECT_NE(here("$TRIREME plan deck.toml --search").code, 0);  // needs a machine
}

TEST_F(PredictRun, ASearchThatFindsNothingFails) {
  const std::string search = "$TRIREME plan deck.toml --machine machine.toml --search --ranks ";
  const auto refused = [&](const std::string& arguments, const std::string& says) {
    const auto r = here(search + arguments);
    EXPECT_EQ(r.code, 1) << arguments;
    EXPECT_NE(r.err.find(says), std::string::npos) << r.err;
  };
  refused("0", "not a number of ranks");
  refused("1000000000000", "not a number of ranks");
  refused("7", "no grid of 7 ranks");  // of 2 layers, 2 heads, a batch of 4
  refused("2 --device-memory 1MiB", "none of these fits");
  EXPECT_NE(here(search + "2 --trace t.json").code, 0);  // nothing would be written
  EXPECT_FALSE(std::filesystem::exists(folder / "t.json"));
}

// What is printed, put behind the deck, is what was found.
TEST_F(PredictRun, OverridesOfASearchUndoWhatTheDeckHas) {
  const auto r = here(
      "$TRIREME plan deck.toml model.layers=4 parallel.pipe=2 parallel.stage_layers=[3,1] "
      "zero.stage=3 zero.shard=1 --ranks 2 --machine machine.toml --search");
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* said : {"parallel.stage_layers=[]", "zero.shard=0"})
    EXPECT_NE(r.out.find(said), std::string::npos) << r.out;

  const std::string deck = "$TRIREME plan deck.toml zero.stage=3 zero.gather=step --ranks 2 ",
                    back = "zero.gather=microbatch zero.reduce=microbatch";
  const auto found = here(deck + "--machine machine.toml --search");
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_NE(found.out.find("of zero.stage 0, 1 or 2: " + back), std::string::npos) << found.out;
  EXPECT_NE(here(deck + "zero.stage=1").code, 0);
  EXPECT_EQ(here(deck + "zero.stage=1 " + back).code, 0);
}

// Every 4 steps, or every so many minutes, each of which begin anew with a checkpoint.
TEST_F(PredictRun, CountsCheckpointsAsRunsMakeThem) {
  const auto count = [&](const std::string& overrides) {
    const auto r = here("$TRIREME plan deck.toml train.steps=101 checkpoint.every_steps=10 " +
                        overrides + " --machine machine.toml --json");
    EXPECT_EQ(r.code, 0) << r.err;
    return nlohmann::json::parse(r.out).at("predicted").at("checkpoints").get<int>();
  };
  EXPECT_EQ(count(""), 11);  // after 10, 20, .. 100 steps, and the last
  EXPECT_EQ(count("checkpoint.every_minutes=1000"), 11);
}

// A tied table goes between stages, though it travels as gradients of shards do.
TEST_F(PredictRun, ATiedTableIsAMessageOfThePipeline) {
  folder.write("gpu.toml", machine_text(test::plain_machine("cuda")));
  const auto r = here(
      "$TRIREME plan deck.toml run.backend=auto parallel.pipe=2 --ranks 2 --machine gpu.toml "
      "--json");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto exposed = nlohmann::json::parse(r.out).at("predicted").at("exposed_seconds");
  EXPECT_EQ(exposed.at("shard"), 0);
  EXPECT_GT(exposed.at("pipe"), 0);
}

TEST_F(PredictRun, AMachineFileGivesHistoryItsPeak) {
  const auto r = here("$TRIREME train deck.toml --run-dir run run.machine=machine.toml");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto rows = read_history(folder / "run/history.csv");

  ASSERT_FALSE(rows.empty());
  EXPECT_GT(rows.back().mfu, 0);
}

}  // namespace
}  // namespace trireme
