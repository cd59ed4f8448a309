// Losses of pairs by their formulas, and which rows and passes they need.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/train/objective.hpp"
#include "tests/train/preference_runs.hpp"

namespace trireme {
namespace {

using namespace test::preferences;

TEST(Preferences, RowsOfAllRanksAreThoseOfTheDocuments) {
  const auto setup = with_adapters(test::tiny_gpt2());
  const auto whole = batch_of(setup, 0, samples.size());
  EXPECT_EQ(documents_in(whole), 12);
  for (const int ranks : {1, 2, 7}) {
    const ops::SequenceLayout layout(T, ranks, 3, 1, 1);
    std::map<std::int64_t, std::int64_t> rows_of;  // by document
    for (int rank = 0; rank < ranks; ++rank) {
      const auto rows = rows_of_documents(whole, layout, rank);
      std::int64_t next = 0;
      for (const auto& r : rows) {
        EXPECT_EQ(r.rows.begin, next);
        next = r.rows.end;
        rows_of[r.sum] += r.rows.end - r.rows.begin;
      }
      EXPECT_EQ(next, static_cast<std::int64_t>(samples.size()) * T / ranks);
    }
    std::int64_t document = 0, padding = 0;
    for (const auto& s : samples) padding += T - s.end;
    for (const auto& s : samples)
      for (std::size_t d = 0; d < s.begins.size(); ++d, ++document) {
        const auto end = d + 1 < s.begins.size() ? s.begins[d + 1] : s.end;
        EXPECT_EQ(rows_of[document], end - s.begins[d] + (document == 0 ? padding : 0)) << document;
      }
  }
}

TEST(Preferences, OfLargeMarginsStayFinite) {
  EXPECT_EQ(result_of(Dpo{1}, {0, 5000}, {0, 0}).loss, 0);
  EXPECT_EQ(result_of(Dpo{1}, {5000, 0}, {0, 0}).loss, 5000);
  EXPECT_EQ(result_of(Dpo{0.5}, {0, 10000}, {0, 0}).weight_chosen, 0);
  EXPECT_EQ(result_of(Dpo{0.5}, {10000, 0}, {0, 0}).weight_chosen, 0.5);
  EXPECT_EQ(result_of(Dpo{0.5}, {0, 0}, {0, 0}).weight_chosen, 0.25);
  EXPECT_EQ(result_of(Simpo{1, 0}, {5000}, {0}).loss, 5000);
  EXPECT_EQ(result_of(Simpo{1, 0}, {0}, {5000}).weight_chosen, 0);
  for (const double chosen : {0.0, 1e-300, 5000.0})  // of probability 1, and of next to none
    for (const double rejected : {0.0, 1e-300, 5000.0}) {
      const auto r = result_of(Orpo{0.4}, {chosen, 0, 2}, {rejected, 0, 3});
      for (const double x :
           {r.loss, r.reward_chosen, r.reward_rejected, r.weight_chosen, r.weight_rejected})
        EXPECT_TRUE(std::isfinite(x)) << chosen << " " << rejected;
      // A row's gradient is at most 1 - p times the weight, so this bounds the step.
      EXPECT_LE(std::fabs(r.weight_rejected), 0.4 * 0x1p23 / 3) << chosen << " " << rejected;
    }
  // A loss that f32 rounds to 0 has nearly the odds of the smallest loss that is not rounded.
  const auto odds = [](double loss) {
    return result_of(Orpo{0.1}, {3, 0, 2}, {loss, 0, 1}).reward_rejected;
  };
  EXPECT_NEAR(odds(0), odds(0x1p-23), 1e-6);
}

// Losses by their formulas, and weights by differences of them, in 50 digits (Python's decimal).
TEST(Preferences, OfOnePairHaveTheNumbersOfTheFormulas) {
  const auto expect = [](const PairLoss& loss, const ScoredDocument& chosen,
                         const ScoredDocument& rejected, const PairResult& want) {
    const auto got = result_of(loss, chosen, rejected);
    const std::pair<double, double> fields[] = {{got.loss, want.loss},
                                                {got.reward_chosen, want.reward_chosen},
                                                {got.reward_rejected, want.reward_rejected},
                                                {got.weight_chosen, want.weight_chosen},
                                                {got.weight_rejected, want.weight_rejected}};
    for (const auto& [x, y] : fields) EXPECT_NEAR(x, y, 1e-14 * std::fabs(y));
  };
  expect(Dpo{0.3}, {3.5, 4.75}, {4.25, 4},
         {0.49324894599745489, 0.375, -0.075, 0.11680822981523341, -0.11680822981523341});
  expect(
      Simpo{2.5, 1.25}, {3.5, 0, 5}, {4.25, 0, 3},
      {0.45854941334405835, -1.75, -3.5416666666666665, 0.18389997918274026, -0.30649996530456713});
  expect(Orpo{0.4}, {3.5, 0, 5}, {4.25, 0, 3},
         {0.81243573393369239, -0.01365899719161489, -1.1389071033798479, 0.23894031917363132,
          -0.04313239680261282});
  expect(Orpo{0.4}, {9.5, 0, 4}, {0.25, 0, 8},
         {4.6672766070568237, -2.27737119613146, 3.4500702130266916, 0.3598975844204973,
          -1.6198569307439967});
}

// The losses of the documents come first, and no other pass.
TEST(Preferences, WithoutAReferenceNeedOnePassBefore) {
  const auto none = passes_of_step(PreferenceTraining{Orpo{}, Reference::none});
  EXPECT_EQ(none, (std::vector{StepPass::policy_losses, StepPass::gradients}));
  EXPECT_EQ(progress_of(none, 1, 4).done, 7);
  EXPECT_EQ(progress_of(none, 1, 4).of, 16);
  const auto tokens = passes_of_step(TokenTraining{});
  EXPECT_EQ(progress_of(tokens, 3, 4).done, 3);
  EXPECT_EQ(progress_of(tokens, 3, 4).of, 4);
}

}  // namespace
}  // namespace trireme
