// `plan --machine`: what the command line says of times, and what it refuses.
#include <set>

#include "lib/deck/machine_file.hpp"
#include "lib/io/run_tables.hpp"
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

TEST_F(PredictRun, AMachineFileGivesHistoryItsPeak) {
  const auto r = here("$TRIREME train deck.toml --run-dir run run.machine=machine.toml");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto rows = read_history(folder / "run/history.csv");

  ASSERT_FALSE(rows.empty());
  EXPECT_GT(rows.back().mfu, 0);
}

}  // namespace
}  // namespace trireme
