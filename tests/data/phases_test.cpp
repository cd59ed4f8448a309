#include "lib/data/phases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

using ::testing::ElementsAre;

DataConfig config(std::vector<std::string> path, std::vector<double> weights,
                  std::vector<PhaseConfig> phases = {}) {
  DataConfig c;
  c.path = std::move(path);
  c.weights = std::move(weights);
  c.phases = std::move(phases);
  return c;
}

// Paths identify the files here.
PhasePlan plan(const DataHistory& before, std::int64_t samples, const DataConfig& c,
               const std::vector<std::int64_t>& first_samples = {}) {
  return plan_phases(before, samples, c, training_files(c), first_samples);
}

TEST(Phases, OfANewRunAreThoseOfTheDeck) {
  const auto c = config({"a", "b"}, {3, 1}, {{10, 0, {}, {1, 1}}, {20, 0, {"c"}, {}}});
  EXPECT_THAT(training_files(c), ElementsAre("a", "b", "c"));
  const auto [history, numbers] = plan({}, 0, c, {80, 160});
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2));
  EXPECT_THAT(history.phases, ElementsAre(DataPhase{0, {0, 1}, {3, 1}},
                                          DataPhase{80, {0, 1}, {1, 1}}, DataPhase{160, {2}, {1}}));
}

TEST(Phases, OfARestartAreTheOldOnesUpToTheCheckpoint) {
  const auto c = config({"a", "b"}, {3, 1}, {{10, 0, {}, {1, 1}}});
  const auto old = plan({}, 0, c, {80}).history;
  // Before the phase, at it, and after it, with the batch doubled meanwhile.
  for (const std::int64_t at : {40, 80, 100}) {
    const auto first = at < 80 ? at + 80 : at;
    const auto phases = plan(old, at, c, {first}).history.phases;
    EXPECT_THAT(phases, ElementsAre(DataPhase{0, {0, 1}, {3, 1}},
                                    DataPhase{at < 80 ? first : 80, {0, 1}, {1, 1}}))
        << at;
  }
}

TEST(Phases, OfARestartWithOtherFilesBeginAtTheCheckpoint) {
  const auto old = plan({}, 0, config({"a", "b"}, {3, 1})).history;
  const auto [history, numbers] = plan(old, 50, config({"c", "b"}, {1, 2}));
  EXPECT_THAT(history.files, ElementsAre("a", "b", "c"));
  EXPECT_THAT(numbers, ElementsAre(2, 1));
  EXPECT_THAT(history.phases,
              ElementsAre(DataPhase{0, {0, 1}, {3, 1}}, DataPhase{50, {2, 1}, {1, 2}}));
  // From there, a restart of the same deck changes nothing.
  EXPECT_EQ(plan(history, 70, config({"c", "b"}, {1, 2})).history, history);
  // A restart from an older checkpoint forgets the change after it.
  EXPECT_THAT(plan(history, 30, config({"a", "b"}, {3, 1})).history.phases,
              ElementsAre(DataPhase{0, {0, 1}, {3, 1}}));
}

TEST(Phases, WithoutSharesCannotContinue) {
  const auto old = plan({}, 0, config({"a", "b"}, {})).history;
  EXPECT_THAT(old.phases, ElementsAre(DataPhase{0, {0, 1}, {}}));
  EXPECT_THAT(plan(old, 50, config({"b", "c"}, {1, 1})).history.phases,
              ElementsAre(DataPhase{0, {0, 1}, {1, 1}}));
  // One file has a position, so it continues.
  const auto one = plan({}, 0, config({"a"}, {})).history;
  EXPECT_THAT(plan(one, 50, config({"a", "b"}, {1, 1})).history.phases,
              ElementsAre(DataPhase{0, {0}, {1}}, DataPhase{50, {0, 1}, {1, 1}}));
}

TEST(Phases, OfACheckpointWithoutThemAreTheDecks) {
  const auto c = config({"a"}, {}, {{10, 0, {"b"}, {}}});
  EXPECT_THAT(plan({}, 100, c, {100}).history.phases,
              ElementsAre(DataPhase{0, {0}, {1}}, DataPhase{100, {1}, {1}}));
}

TEST(Phases, FilesOfTheSameContentsStayApart) {
  const auto c = config({"a", "b"}, {1, 1});
  const std::vector<std::string> same = {"x", "x"};
  const auto [history, numbers] = plan_phases({}, 0, c, same, {});
  EXPECT_THAT(numbers, ElementsAre(0, 1));
  EXPECT_THAT(plan_phases(history, 9, c, same, {}).numbers, ElementsAre(0, 1));
}

TEST(Phases, AreWrittenAsTextAndRead) {
  const auto c = config({"a", "b"}, {0.1, 3}, {{0, 10, {}, {1e-7, 1}}});
  const auto history = plan({}, 0, c, {5}).history;
  EXPECT_EQ(history_from(to_text(history)), history);
  EXPECT_EQ(history_from(""), DataHistory{});
  for (const char* text :
       {"{", "{}", R"({"files":["a"],"phases":[]})",
        R"({"files":["a"],"phases":[{"sample":1,"files":[0],"weights":[1]}]})",
        R"({"files":["a"],"phases":[{"sample":0,"files":[1],"weights":[1]}]})",
        R"({"files":["a"],"phases":[{"sample":0,"files":[0],"weights":[1,2]}]})"})
    EXPECT_THROW(history_from(text), Error) << text;
}

}  // namespace
}  // namespace trireme
