// run.trace_steps and trireme plan on a grid, as their users see them.
#include <map>
#include <set>

#include "tests/app/grid_training.hpp"

namespace trireme {
namespace {

const GridCase one_of_all_axes{4, "parallel.pipe=2 parallel.seq=2 zero.stage=3"};

class GridTrace : public GridTraining {
 protected:
  nlohmann::json trace_of(const std::string& file) {
    return nlohmann::json::parse(contents_of(folder.path() / file)).at("traceEvents");
  }
};

TEST_F(GridTrace, ShowsAllQueuesOfAllRanksAndWhatOverlaps) {
  const auto r = here(train(one_of_all_axes, "--run-dir run train.steps=5 run.trace_steps=[3,4]"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(count(r.err, "steps-00000003-00000004.json"), 1) << r.err;

  std::map<int, std::set<std::string>> names;  // by rank
  std::map<std::pair<int, int>, double> end_of_track;
  struct Span {
    double begin, end;
  };
  std::map<int, std::vector<Span>> gathers, ops;
  const std::set<std::string> op_names{"linear",         "linear grad", "attention",
                                       "attention grad", "layer_norm",  "layer_norm grad"};
  for (const auto& e : trace_of("run/trace/steps-00000003-00000004.json")) {
    if (e.at("ph") != "X") continue;
    const int rank = e.at("pid");
    const std::string name = e.at("name"), queue = e.at("cat");
    const double begin = e.at("ts"), end = begin + e.at("dur").get<double>();
    names[rank].insert(name);
    EXPECT_GE(begin, 0);
    EXPECT_LT(end, 60e6) << "microseconds since the first span";
    if (name == "gather") gathers[rank].push_back({begin, end});
    if (op_names.contains(name)) {
      ops[rank].push_back({begin, end});
      EXPECT_TRUE(e.at("args").contains("unit")) << e;
      EXPECT_TRUE(e.at("args").contains("microbatch")) << e;
    }
    if (queue == "compute") continue;
    auto& last = end_of_track[{rank, e.at("tid")}];
    EXPECT_GE(begin, last - 0.002) << "spans of one track overlap: " << e;
    last = end;
  }

  ASSERT_EQ(names.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    for (const auto* name :
         {"step 3", "step 4", "forward", "backward", "gather", "scatter", "exchange", "send",
          "receive", "linear", "linear grad", "attention", "attention grad", "optimizer"})
      EXPECT_TRUE(names[rank].contains(name)) << "rank " << rank << ": " << name;
    EXPECT_EQ(names[rank].contains("block 0 grad"), rank < 2);
    EXPECT_EQ(names[rank].contains("head"), rank >= 2);
    EXPECT_FALSE(names[rank].contains("step 5"));
    const bool overlap = std::ranges::any_of(gathers[rank], [&](const Span& g) {
      return std::ranges::any_of(ops[rank],
                                 [&](const Span& o) { return o.begin < g.end && g.begin < o.end; });
    });
    EXPECT_TRUE(overlap) << "rank " << rank << ": no gather is on its way while an op runs";
  }
}

TEST_F(GridTrace, OfSomeRanksAloneOrOfNone) {
  auto r = here(train(one_of_all_axes,
                      "--run-dir run train.steps=2 run.trace_steps=[2,2] "
                      "run.trace_ranks=[1,2]"));
  ASSERT_EQ(r.code, 0) << r.err;
  std::set<int> ranks;
  for (const auto& e : trace_of("run/trace/steps-00000002-00000002.json"))
    ranks.insert(e.at("pid").get<int>());
  EXPECT_EQ(ranks, (std::set<int>{1, 2}));

  r = here(on(2,
              "train deck.toml parallel.pipe=2 --run-dir none train.steps=2 "
              "run.trace_steps=[5,6]"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(count(r.err, "this run made no steps from 5 to 6"), 1) << r.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "none/trace"));

  r = here(train(one_of_all_axes, "--run-dir bad run.trace_steps=[1,2] run.trace_ranks=[4]"));
  EXPECT_NE(r.code, 0);
  EXPECT_EQ(count(r.err, "names rank 4, the last one is 3"), 1) << r.err;
  // What one rank reads of a grid's run is not traced.
  EXPECT_EQ(here("$TRIREME evaluate run").code, 0);
}

class GridPlan : public GridTraining {};

TEST_F(GridPlan, ShowsTheScheduleAndItsBubble) {
  const std::string plan = "$TRIREME plan deck.toml --ranks 4 parallel.pipe=2 parallel.seq=2 ";
  const auto text = here(plan);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("\nstage 0 0>1>"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("bubble "), std::string::npos) << text.out;

  const auto json = nlohmann::json::parse(here(plan + "--json").out);
  const auto& schedule = json.at("schedule");
  EXPECT_GT(schedule.at("bubble"), 0.1);
  EXPECT_LT(schedule.at("bubble"), 0.4);
  ASSERT_EQ(schedule.at("stages").size(), 2U);
  EXPECT_EQ(schedule.at("stages")[1].size(), 8U);  // 4 microbatches there and back
}

TEST_F(GridPlan, NamesGridsThatFitTheMemory) {
  const std::string plan = "$TRIREME plan deck.toml --ranks 4 zero.stage=3 ";
  const auto reserved = [&](const std::string& grid) {
    return nlohmann::json::parse(here(plan + grid + " --json").out)
        .at("reserved_bytes")
        .get<std::int64_t>();
  };
  // Between what the hungriest of these grids needs and what the others do.
  const std::vector<std::string> grids{"parallel.pipe=4 parallel.data=1 parallel.seq=1",
                                       "parallel.pipe=1 parallel.data=4 parallel.seq=1",
                                       "parallel.pipe=1 parallel.data=1 parallel.seq=4"};
  std::vector<std::int64_t> bytes;
  for (const auto& g : grids) bytes.push_back(reserved(g));
  const auto worst = std::ranges::max_element(bytes) - bytes.begin();
  const auto best = std::ranges::min_element(bytes) - bytes.begin();
  ASSERT_GT(bytes[static_cast<std::size_t>(worst)], bytes[static_cast<std::size_t>(best)]);
  const auto limit = std::to_string(bytes[static_cast<std::size_t>(worst)] - 1);

  const auto r = here(plan + grids[static_cast<std::size_t>(worst)] + " --device-memory " + limit);

  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("on 4 ranks these fit"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(grids[static_cast<std::size_t>(best)]), std::string::npos) << r.err;
  EXPECT_EQ(count(r.err, grids[static_cast<std::size_t>(worst)]), 0) << r.err;
  EXPECT_EQ(here(plan + grids[static_cast<std::size_t>(best)] + " --device-memory " + limit).code,
            0);

  // One block, which no pipeline divides, of weights that outweigh all else: sharding alone helps.
  const std::string sharded = "parallel.pipe=1 parallel.data=4 parallel.seq=1";
  const std::string block = " model.layers=1 model.width=256 ";
  const auto least = std::to_string(reserved(sharded + block));
  const auto whole = here("$TRIREME plan deck.toml --ranks 4 zero.stage=0 " + sharded + block +
                          " --device-memory " + least);
  EXPECT_EQ(whole.code, 1);
  // Of the stages that fit, the one that sends least.
  EXPECT_NE(whole.err.find(sharded + " zero.stage=1 "), std::string::npos) << whole.err;

  const auto none = here(plan + "parallel.pipe=2 --device-memory 1M");
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("no other grid of 4 ranks fits"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("train.microbatch"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace trireme
