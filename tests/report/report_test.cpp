#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/report/log_events.hpp"
#include "lib/report/page.hpp"
#include "lib/report/run_report.hpp"
#include "lib/report/thin.hpp"
#include "lib/report/trace_spans.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

TEST(Thinned, AShortSeriesStays) {
  const std::vector<SeriesPoint> all = {{1, 10, 3}, {2, 20, 1}, {3, 30, std::nan("")}, {4, 40, 2}};
  EXPECT_EQ(thinned(all, 10), (std::vector<SeriesPoint>{all[0], all[1], all[3]}));
}

TEST(Thinned, NoPeakOfALongSeriesIsLost) {
  std::vector<SeriesPoint> all;
  for (int i = 0; i < 1'000'000; ++i) all.push_back({i, i, 1.0});
  all[123'456].value = 9;
  all[654'321].value = -9;
  const auto kept = thinned(all, 100);
  EXPECT_LE(kept.size(), 202U);
  EXPECT_EQ(kept.front(), all.front());
  EXPECT_EQ(kept.back(), all.back());
  EXPECT_EQ(std::ranges::count(kept, all[123'456]), 1);
  EXPECT_EQ(std::ranges::count(kept, all[654'321]), 1);
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &SeriesPoint::step));
}

TEST(LogEvents, WhatARestartMakesAgainIsForgotten) {
  const auto e = log_events(
      "2026-01-01 00:00:00 info step 4: checkpoint run/checkpoints/step-00000004 in 0.1 s\n"
      "2026-01-01 00:00:00 warning step 5 is skipped: the loss is not finite\n"
      "2026-01-01 00:00:00 info step 8: checkpoint x in 0.1 s\n"
      "2026-01-01 00:00:01 info restarting from run (step 1)/checkpoints/step-00000004 (step 4)\n"
      "2026-01-01 00:00:02 warning step 7 is skipped: <b> is not finite\n"
      "2026-01-01 00:00:02 info the model writes: step 9 is skipped: no\n"
      "half a li");
  EXPECT_EQ(e.restarts, std::vector<std::int64_t>{4});
  EXPECT_EQ(e.checkpoints, std::set<std::int64_t>{4});
  EXPECT_EQ(e.skipped, (std::map<std::int64_t, std::string>{{7, "<b> is not finite"}}));
}

TEST(TracedStep, TheLastStepsSpansInMilliseconds) {
  const auto t = last_traced_step(R"({"traceEvents":[
    {"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"rank 0"}},
    {"ph":"X","name":"step 1","cat":"compute","pid":0,"tid":0,"ts":0,"dur":900,"args":{}},
    {"ph":"X","name":"forward","cat":"compute","pid":0,"tid":0,"ts":10,"dur":10,"args":{"microbatch":0}},
    {"ph":"X","name":"step 2","cat":"compute","pid":0,"tid":0,"ts":1000,"dur":5000,"args":{}},
    {"ph":"X","name":"forward","cat":"compute","pid":0,"tid":0,"ts":2000,"dur":1000,"args":{"microbatch":3}},
    {"ph":"X","name":"linear","cat":"compute","pid":0,"tid":0,"ts":2000,"dur":500,"args":{}},
    {"ph":"X","name":"wait for gather","cat":"compute","pid":0,"tid":0,"ts":2100,"dur":100,"args":{}}]})",
                                  10);
  EXPECT_EQ(t.step, 2);
  ASSERT_EQ(t.bars.size(), 2U);
  EXPECT_EQ(t.bars[0].what, "forward");
  EXPECT_EQ(t.bars[0].microbatch, 3);
  EXPECT_EQ(t.bars[0].begin, 1);
  EXPECT_EQ(t.bars[0].end, 2);
  EXPECT_EQ(t.bars[1].what, "gather");
  EXPECT_THROW(last_traced_step("{", 10), Error);
}

TEST(RunReport, AnEmptyDirectoryHasProblemsAndNoError) {
  const ScratchFolder folder;
  const auto r = run_report(folder.path());
  EXPECT_EQ(r.at("status"), "unknown");
  EXPECT_EQ(r.at("rows"), 0);
  EXPECT_GE(r.at("problems").size(), 3U);
  EXPECT_THROW(run_report(folder.path() / "none"), Error);
}

TEST(Page, NothingInTheDataEndsItsElement) {
  const auto text = json_for_script({{"a", "</script><b>&\xff"}});
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(text).at("a"), "</script><b>&\xEF\xBF\xBD");
}

}  // namespace
}  // namespace trireme
