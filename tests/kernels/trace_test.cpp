#include "kernels/trace.hpp"

#include <gmock/gmock.h>

namespace trireme {
namespace {

// A clock that counts how often it was asked.
Trace::Clock counter() {
  return [n = std::int64_t{0}]() mutable { return n++; };
}

TEST(Trace, OffItRecordsNothing) {
  ASSERT_FALSE(Trace::on());
  { const TraceScope scope("linear", 3); }
  Trace::start(counter());
  EXPECT_TRUE(Trace::stop().empty());
}

TEST(Trace, ScopesNestAndShareTheirUnit) {
  Trace::start(counter());
  {
    const TraceScope part("block", 2, Direction::backward, "blocks.1");
    const TraceScope op("linear", 2, Direction::backward);
  }
  { const TraceScope after("optimizer"); }
  const auto spans = Trace::stop();

  ASSERT_EQ(spans.size(), 3U);
  const auto &op = spans[0], &part = spans[1], &after = spans[2];
  EXPECT_EQ(op.name, "linear grad");
  EXPECT_EQ(op.unit, "blocks.1");
  EXPECT_EQ(op.microbatch, 2);
  EXPECT_EQ(op.queue, Queue::compute);
  EXPECT_EQ(part.name, "block grad");
  EXPECT_LT(part.begin, op.begin);
  EXPECT_LT(op.begin, op.end);
  EXPECT_LT(op.end, part.end);
  EXPECT_EQ(after.name, "optimizer");
  EXPECT_EQ(after.unit, "");
  EXPECT_EQ(after.microbatch, -1);
}

TEST(Trace, EachRecordingStandsAlone) {
  Trace::start(counter());
  auto open = std::make_unique<TraceScope>("left open", 0, Direction::forward, "a");
  { const TraceScope scope("first"); }
  EXPECT_EQ(Trace::stop().size(), 1U);
  open.reset();  // too late
  Trace::start(counter());
  { const TraceScope scope("second"); }
  const auto spans = Trace::stop();
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].name, "second");
  EXPECT_EQ(spans[0].unit, "");
}

std::vector<std::string> shown;
constexpr TraceDisplay display{[](const char* text) { shown.emplace_back(text); },
                               [] { shown.emplace_back("pop"); }};

TEST(Trace, ShowsScopesWithoutRecordingThem) {
  shown.clear();
  Trace::show(&display);
  {
    const TraceScope part("block", 2, Direction::backward, "blocks.1");
    { const TraceScope op("linear", 2); }
    const TraceScope nothing("");
  }
  {
    const TraceScope after("optimizer");
    Trace::show(nullptr);  // what was begun is ended
  }
  { const TraceScope late("late"); }

  EXPECT_THAT(shown, testing::ElementsAre("block grad, blocks.1, microbatch 2",
                                          "linear, blocks.1, microbatch 2", "pop", "pop",
                                          "optimizer", "pop"));
  EXPECT_FALSE(Trace::watched());
  Trace::start(counter());
  EXPECT_TRUE(Trace::stop().empty());
}

TEST(Trace, ShowingChangesNoRecord) {
  const auto record = [] {
    Trace::start(counter());
    {
      const TraceScope part("block", 2, Direction::backward, "blocks.1");
      const TraceScope op("linear", 2, Direction::backward);
    }
    std::vector<std::tuple<std::string, std::string, std::int64_t, std::int64_t>> spans;
    for (const auto& s : Trace::stop()) spans.emplace_back(s.name, s.unit, s.begin, s.end);
    return spans;
  };
  const auto alone = record();
  Trace::show(&display);
  const auto beside = record();
  Trace::show(nullptr);
  EXPECT_EQ(alone, beside);
}

TEST(Trace, TheClockGoesOn) {
  const auto before = Trace::nanoseconds();
  EXPECT_LE(before, Trace::nanoseconds());
}

}  // namespace
}  // namespace trireme
