#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/io/run_tables.hpp"
#include "lib/report/log_events.hpp"
#include "lib/report/page.hpp"
#include "lib/report/run_report.hpp"
#include "lib/report/thin.hpp"
#include "lib/report/trace_spans.hpp"
#include "lib/run/timing.hpp"
#include "tests/interchange/model_files.hpp"
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
      "2026-01-01 00:00:00 warning step 3: training stalled: the loss\n"
      "2026-01-01 00:00:00 warning step 5: training stalled: the norm\n"
      "2026-01-01 00:00:00 warning step 4: host n2 is slow: forward\n"
      "2026-01-01 00:00:00 warning step 6: host n3 is slow: forward\n"
      "2026-01-01 00:00:00 info step 8: checkpoint x in 0.1 s\n"
      "2026-01-01 00:00:01 info restarting from run (step 1)/checkpoints/step-00000004 (step 4)\n"
      "2026-01-01 00:00:02 warning step 7 is skipped: <b> is not finite\n"
      "2026-01-01 00:00:02 info the model writes: step 9 is skipped: no\n"
      "half a li");
  EXPECT_EQ(e.restarts, std::vector<std::int64_t>{4});
  EXPECT_EQ(e.checkpoints, std::set<std::int64_t>{4});
  EXPECT_EQ(e.skipped, (std::map<std::int64_t, std::string>{{7, "<b> is not finite"}}));
  EXPECT_EQ(e.stalled, (std::map<std::int64_t, std::string>{{3, "the loss"}}));
  EXPECT_EQ(e.slow, (std::map<std::int64_t, std::string>{{4, "n2 is slow: forward"}}));
}

TEST(LogEvents, PhasesBatchesAndReturnsAreEvents) {
  const auto e = log_events(
      "2026-01-01 00:00:00 info step 2: the batch grows from 4 to 8 samples\n"
      "2026-01-01 00:00:00 info step 3: the samples now come from b.tokens (100%)\n"
      "2026-01-01 00:00:00 info step 6: the batch grows from 8 to 12 samples\n"
      "2026-01-01 00:00:00 warning step 7 is skipped: the loss is not finite\n"
      "2026-01-01 00:00:00 warning steps 6 to 7 were skipped, so the run rolls back to the "
      "checkpoint of step 4 and continues with sample 18. It leaves out 6 samples "
      "(rollbacks.csv)\n"
      "2026-01-01 00:00:01 info restarting from run/checkpoints/step-00000004 (step 4)\n"
      "2026-01-01 00:00:02 info step 5: the samples now come from c.tokens (100%)\n"
      "2026-01-01 00:00:03 info restarting from run/checkpoints/step-00000004 (step 4)\n");
  EXPECT_EQ(e.restarts, std::vector<std::int64_t>{4});
  EXPECT_EQ(e.skipped.size(), 0u);
  EXPECT_EQ(e.batches, (std::map<std::int64_t, std::string>{{2, "from 4 to 8 samples"}}));
  EXPECT_EQ(e.phases, (std::map<std::int64_t, std::string>{{3, "b.tokens (100%)"}}));
  ASSERT_EQ(e.rollbacks.size(), 1u);
  EXPECT_EQ(e.rollbacks.begin()->first, 4);
  EXPECT_TRUE(
      e.rollbacks.begin()->second.starts_with("steps 6 to 7 were skipped, so the run rolls"));
}

TEST(TracedStep, TheLastStepsSpansInMilliseconds) {
  const std::string trace = R"({"traceEvents":[
    {"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"rank 0"}},
    {"ph":"X","name":"step 1","cat":"compute","pid":0,"tid":0,"ts":0,"dur":900,"args":{}},
    {"ph":"X","name":"forward","cat":"compute","pid":0,"tid":0,"ts":10,"dur":10,"args":{"microbatch":0}},
    {"ph":"X","name":"step 2","cat":"compute","pid":0,"tid":0,"ts":1000,"dur":5000,"args":{}},
    {"ph":"X","name":"forward","cat":"compute","pid":0,"tid":0,"ts":2000,"dur":1000,"args":{"microbatch":3}},
    {"ph":"X","name":"linear","cat":"compute","pid":0,"tid":0,"ts":2000,"dur":500,"args":{}},
    {"ph":"X","name":"wait for gather","cat":"compute","pid":0,"tid":0,"ts":2100,"dur":100,"args":{}}]})";
  const auto t = last_traced_step(trace, 10);
  EXPECT_EQ(t.step, 2);
  ASSERT_EQ(t.bars.size(), 2U);
  EXPECT_EQ(t.bars[0].what, "forward");
  EXPECT_EQ(t.bars[0].microbatch, 3);
  EXPECT_EQ(t.bars[0].begin, 1);
  EXPECT_EQ(t.bars[0].end, 2);
  EXPECT_EQ(t.bars[1].what, "gather");
  const auto longest = last_traced_step(trace, 1);
  ASSERT_EQ(longest.bars.size(), 1U);
  EXPECT_EQ(longest.bars[0].what, "forward");
  EXPECT_EQ(longest.left_out, 1U);
}

// Whatever such a file says is reported in our words, as is what is wrong with its syntax.
TEST(RunReport, FilesThatAreHostileAreNamedWithTheirMember) {
  const auto trace = [](const std::string& event) { return R"({"traceEvents":[)" + event + "]}"; };
  const std::string step = R"({"ph":"X","name":"step 1","pid":0,"ts":0,"dur":9,"args":{}})";
  const std::pair<std::string, const char*> traces[] = {
      {"{", "syntax"},
      {"[]", "traceEvents"},
      {R"({"traceEvents":7})", "traceEvents"},
      {trace("7"), "ph"},
      {trace(R"({"ph":7})"), "ph"},
      {trace(R"({"ph":"X","name":"step 1","pid":1e9,"ts":0,"dur":9})"), "pid"},
      {trace(R"({"ph":"X","name":"step 1","pid":4294967296,"ts":0,"dur":9})"), "pid"},
      {trace(R"({"ph":"X","name":"step 1","pid":0,"ts":"0","dur":9})"), "ts"},
      {trace(R"({"ph":"X","name":"step x","pid":0,"ts":0,"dur":9})"), "is not a step"},
      {trace(R"({"ph":"X","name":"step 99999999999999999999","pid":0,"ts":0,"dur":9})"),
       "is not a step"},
      {trace(step + R"(,{"ph":"X","name":"forward","pid":0,"ts":1,"dur":1,"args":{}})"), "cat"},
      {trace(step + R"(,{"ph":"X","name":"forward","cat":"compute","pid":0,"ts":1,"dur":1})"),
       "args"}};
  for (const auto& [text, word] : traces) {
    const auto said = message_of([&] { last_traced_step(text, 10); });
    EXPECT_NE(said.find(word), std::string::npos) << text << said;
    EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
  }
  const ScratchFolder folder;
  for (const char* text : {"[", "[]", R"({"processes":{}})", R"({"processes":[{"backend":7}]})",
                           R"({"processes":[7]})"}) {
    folder.write("timing.json", text);
    const auto report = run_report(folder.path());
    const auto said = report.at("problems").dump();
    EXPECT_NE(said.find("timing.json: "), std::string::npos) << text << said;
    EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
    EXPECT_TRUE(report.at("timing").empty());
  }
}

// What is added reads back, behind what was there.
TEST(Timing, OfAFileIsWhatWasWritten) {
  const ScratchFolder folder;
  RunTiming t;
  t.grid = {2, 1, 1};
  t.backend = "host";
  t.first_step = 4;
  t.last_step = 8;
  t.tokens = 640;
  t.steps_seconds = 0.1;
  t.ranks.resize(2);
  t.ranks[1].rank = 1;
  t.ranks[1].seconds[0] = 1.0 / 3;
  t.ranks[1].account.peak[1] = 7;
  t.ranks[1].sent.pipe = 9;
  t.recoveries = {2, 35.5, 3};
  EXPECT_EQ(timing_lines(t).back(),
            "2 recoveries of the run so far: 36 s from failed starts to the next ones, 3 steps "
            "repeated");
  const auto path = folder.path() / "timing.json";
  for (std::size_t i = 1; i <= 2; ++i) {
    add_timing(path, t);
    const auto all = parse_timing(contents_of(path));
    ASSERT_EQ(all.size(), i);
    for (const auto& one : all) {
      EXPECT_EQ(to_json(one), to_json(t));
      EXPECT_EQ(one.recoveries, t.recoveries);
    }
  }
  auto without = t;
  without.recoveries = {};
  EXPECT_FALSE(to_json(without).contains("recoveries"));
  folder.write("timing.json", "{\"processes\": [");
  testing::internal::CaptureStderr();
  add_timing(path, t);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("timing.json is damaged"),
            std::string::npos);
  EXPECT_EQ(parse_timing(contents_of(path)).size(), 1);
}

TEST(RunReport, HasWhatTheFilesSay) {
  const ScratchFolder folder;
  std::string history;
  for (int step = 1; step <= 4; ++step) {
    HistoryRow row;
    row.step = step;
    row.tokens = 100 * step;
    row.loss = 5 - step;
    row.grad_norm = step == 2 ? std::nan("") : 10 * step;
    row.lr = 0.25 * step;
    row.tokens_per_second = 1000 * step;
    row.trained_tokens = 90 * step;
    if (step > 2) row.preference = {0.5 * step, 1.0 / step, 0, 0};
    history += to_csv(row) + "\n";
  }
  folder.write("history.csv", std::string(history_columns.preferences) + "\n" +
                                  with_preferences(history, history_columns));
  folder.write("evaluation.csv", std::string(evaluation_columns.preferences) +
                                     "\n2,200,0.5,,0.25,0.75,0.5,0.25\n4,400,0.4,,0.5,1,1,0.5\n");
  folder.write("log",
               "2026-01-01 00:00:00 info step 2: checkpoint x in 0.1 s\n"
               "2026-01-01 00:00:00 info step 2: the batch grows from 4 to 8 samples\n"
               "2026-01-01 00:00:00 warning step 3: host n2 is slow: forward\n");
  folder.write("recoveries.csv", "2026-11-30T09:00:00Z,12,0,1,n1 Killed,n1,n1,4,2,2,14\n");
  test::save_model(folder.path() / "checkpoints", test::small_llama());  // of step 3

  const auto r = run_report(folder.path());

  using Json = nlohmann::json;
  EXPECT_EQ(r.at("step"), 4);
  EXPECT_EQ(r.at("tokens"), 400);
  EXPECT_EQ(r.at("trained_tokens"), 360);
  const auto& series = r.at("series");
  for (const auto& [name, values] : {std::pair{"loss", Json{4, 3, 2, 1}},
                                     {"lr", Json{0.25, 0.5, 0.75, 1}},
                                     {"tokens_per_second", Json{1000, 2000, 3000, 4000}}}) {
    EXPECT_EQ(Json(series.at(name).at("value")), values) << name;
    EXPECT_EQ(Json(series.at(name).at("step")), (Json{1, 2, 3, 4})) << name;
    EXPECT_EQ(Json(series.at(name).at("tokens")), (Json{100, 200, 300, 400})) << name;
  }
  EXPECT_EQ(Json(series.at("grad_norm").at("value")), (Json{10, 30, 40}));
  EXPECT_EQ(Json(series.at("margin").at("value")), (Json{1.5, 2}));
  EXPECT_EQ(Json(series.at("margin").at("step")), (Json{3, 4}));
  EXPECT_EQ(Json(series.at("accuracy").at("value")), (Json{0.333333333, 0.25}));
  EXPECT_EQ(Json(series.at("held_out").at("value")), (Json{0.5, 0.4}));
  EXPECT_EQ(Json(series.at("held_out_margin").at("value")), (Json{0.25, 0.5}));
  EXPECT_EQ(Json(series.at("held_out_accuracy").at("value")), (Json{0.75, 1}));
  EXPECT_EQ(
      Json(r.at("marks")),
      Json::parse(
          R"({"checkpoints": [{"step": 2, "kept": false}, {"step": 3, "kept": true}],
                            "restarts": [], "skipped": [{"step": 2, "why": "it is not finite"}],
                            "stalled": [],
                            "slow": [{"step": 3, "why": "n2 is slow: forward"}],
                            "rollbacks": [], "phases": [],
                            "batches": [{"step": 2, "why": "from 4 to 8 samples"}],
                            "recoveries": [{"step": 2, "why": "2026-11-30T09:00:00Z: n1 Killed; )"
          R"(continued after step 2 on n1 (4 ranks) 14 s after the failed start had ended"}]})"));
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
