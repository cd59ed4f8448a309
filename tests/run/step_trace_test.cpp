#include "lib/run/step_trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

nlohmann::json events(std::span<const TraceSpan> spans, std::int64_t origin = 0) {
  return nlohmann::json::parse("[" + chrome_events(3, "rank \"3\"", spans, origin) + "]");
}

TEST(StepTrace, EventsSayWhoWhatAndWhen) {
  const TraceSpan span{Queue::gather, "gather", "blocks.\"1\"", 2, 5'000, 7'500};
  const auto all = events({&span, 1}, 1'000);

  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].at("args").at("name"), "rank \"3\"");
  EXPECT_EQ(all[1].at("args").at("name"), "gather");
  const auto& e = all[2];
  EXPECT_EQ(e.at("ph"), "X");
  EXPECT_EQ(e.at("pid"), 3);
  EXPECT_EQ(e.at("tid"), all[1].at("tid"));
  EXPECT_EQ(e.at("name"), "gather");
  EXPECT_EQ(e.at("ts"), 4.0);
  EXPECT_EQ(e.at("dur"), 2.5);
  EXPECT_EQ(e.at("args").at("unit"), "blocks.\"1\"");
  EXPECT_EQ(e.at("args").at("microbatch"), 2);
}

// No viewer shows spans of one track that overlap without one containing the other.
TEST(StepTrace, WhatOverlapsLiesOnTracksOfItsOwn) {
  const std::vector<TraceSpan> spans{
      {Queue::gather, "c", "", -1, 30, 40},      {Queue::gather, "b", "", -1, 15, 35},
      {Queue::gather, "a", "", -1, 10, 20},      {Queue::compute, "inner", "", -1, 12, 14},
      {Queue::compute, "outer", "", -1, 12, 18}, {Queue::compute, "later", "", -1, 18, 19}};
  std::map<std::string, int> track;
  std::map<int, std::string> name;
  std::vector<std::string> order;
  for (const auto& e : events(spans)) {
    if (e.at("ph") == "M" && e.at("name") == "thread_name")
      name[e.at("tid")] = e.at("args").at("name");
    if (e.at("ph") != "X") continue;
    track[e.at("name")] = e.at("tid");
    order.push_back(e.at("name"));
  }
  EXPECT_EQ(name[track["a"]], "gather");
  EXPECT_EQ(name[track["b"]], "gather 2");
  EXPECT_EQ(track["c"], track["a"]);
  EXPECT_EQ(name[track["outer"]], "compute");
  EXPECT_EQ(track["inner"], track["outer"]);
  EXPECT_EQ(track["later"], track["outer"]);
  EXPECT_EQ(order, (std::vector<std::string>{"a", "outer", "inner", "b", "later", "c"}));
}

TEST(StepTrace, RecordsItsStepsAlone) {
  const ScratchFolder folder;
  const Axes axes;
  StepTrace trace(axes, {{2, 3}, {}}, folder / "trace");
  for (int step = 1; step <= 5; ++step) {
    trace.begin(step);
    EXPECT_EQ(Trace::on(), step == 2 || step == 3) << step;
    { const TraceScope scope("work", step); }
    trace.end(step);
    EXPECT_FALSE(Trace::on());
  }
  trace.close();

  const auto file =
      nlohmann::json::parse(contents_of(folder / "trace/steps-00000002-00000003.json"));
  std::vector<int> steps;
  for (const auto& e : file.at("traceEvents"))
    if (e.at("name") == "work") steps.push_back(e.at("args").at("microbatch"));
  EXPECT_EQ(steps, (std::vector<int>{2, 3}));
}

TEST(StepTrace, ARunThatEndsEarlierKeepsWhatThereIs) {
  const ScratchFolder folder;
  const Axes axes;
  StepTrace trace(axes, {{2, 30}, {}}, folder / "trace");
  trace.begin(2);
  trace.end(2);
  trace.close();
  EXPECT_TRUE(std::filesystem::exists(folder / "trace/steps-00000002-00000002.json"));
}

TEST(StepTrace, OtherRanksRecordNothing) {
  const ScratchFolder folder;
  const Axes axes;
  StepTrace trace(axes, {{1, 1}, {7}}, folder / "trace");
  trace.begin(1);
  EXPECT_FALSE(Trace::on());
  trace.end(1);
}

}  // namespace
}  // namespace trireme
