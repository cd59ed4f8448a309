// The objective of labeled answers (kto): a step on answers that share samples with their
// mismatched answers has the loss of the formula, made of the losses of documents that stand in
// samples of their own; gradients agree with differences of that loss, in which z stays as it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/train/preference_runs.hpp"

namespace trireme {
namespace {

using namespace test::preferences;

const Kto kto{0.7, 1.25, 0.75};

TrainerSetup kto_setup(const TrainerSetup& s, Reference reference) {
  return with_objective(s, {kto, reference});
}

// Of documents, each second of which is mismatched: Ethayarajh et al. 2024, equations 7 and 8.
struct Wanted {
  double z = 0, loss = 0;  // the mean
  std::vector<double> rewards;
};
Wanted want_of(const std::vector<double>& policy, const std::vector<double>& reference,
               const std::vector<bool>& labels, std::optional<double> z = {}) {
  Wanted w;
  double ratios = 0;
  for (std::size_t a = 0; a < labels.size(); ++a) {
    ratios += reference[2 * a + 1] - policy[2 * a + 1];
    w.rewards.push_back(0.7 * (reference[2 * a] - policy[2 * a]));
  }
  const auto n = static_cast<double>(labels.size());
  w.z = z.value_or(0.7 * std::fmax(0, ratios / n));
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (std::size_t a = 0; a < labels.size(); ++a)
    w.loss += (labels[a] ? 1.25 * (1 - sigmoid(w.rewards[a] - w.z))
                         : 0.75 * (1 - sigmoid(w.z - w.rewards[a]))) /
              n;
  return w;
}

std::vector<Batch> labeled_batches(const TrainerSetup& setup, const std::vector<bool>& labels) {
  std::vector<Batch> all{batch_of(setup, 0, 2), batch_of(setup, 2, 2)};
  std::size_t next = 0;
  for (auto& b : all)
    for (std::int64_t d = 0; d < documents_in(b); d += 2)
      b.desirable_A.push_back(labels[next++] ? 1 : 0);
  EXPECT_EQ(next, labels.size());
  return all;
}

std::vector<Batch> documents_of(std::span<const Batch> batches) {
  std::vector<Batch> documents;
  for (const auto& b : batches)
    for (auto& d : documents_alone(b)) documents.push_back(std::move(d));
  return documents;
}

void expect_sums(const PreferenceSums& got, const Wanted& want, const std::vector<bool>& labels) {
  double chosen = 0, rejected = 0, fit = 0;
  for (std::size_t a = 0; a < labels.size(); ++a) {
    (labels[a] ? chosen : rejected) += want.rewards[a];
    fit += labels[a] ? want.rewards[a] > want.z : want.rewards[a] < want.z;
  }
  const auto desirable = std::ranges::count(labels, true);
  EXPECT_NEAR(got.chosen, chosen, 1e-12);
  EXPECT_NEAR(got.rejected, rejected, 1e-12);
  EXPECT_EQ(got.of_chosen, desirable);
  EXPECT_EQ(got.of_rejected, std::ssize(labels) - desirable);
  EXPECT_EQ(got.preferred, fit);
  EXPECT_EQ(got.pairs, std::ssize(labels));
  EXPECT_NEAR(got.loss, want.loss * static_cast<double>(std::ssize(labels)), 1e-12);
  ASSERT_TRUE(got.z);
  EXPECT_NEAR(*got.z, want.z, 1e-12);
}

const std::vector<std::vector<bool>> all_labels{
    {true, false, false, true, true, false}, std::vector(6, true), std::vector(6, false)};

class Labeled : public testing::TestWithParam<PreferenceModel> {};
INSTANTIATE_TEST_SUITE_P(Train, Labeled, testing::ValuesIn(preference_models()),
                         [](const auto& i) { return std::string(i.param.name); });

TEST_P(Labeled, AgainstTheModelWithoutAdapters) {
  const auto& setup = GetParam().setup;
  const auto weights = some_weights(setup, 0.3);
  for (const auto& labels : all_labels) {
    const auto batches = labeled_batches(setup, labels);
    const auto documents = documents_of(batches);
    const auto fixed = losses_alone(test::without_adapters(setup), weights, documents);
    const auto want = want_of(losses_alone(setup, weights, documents), fixed, labels);
    const auto got = outcome_of(kto_setup(setup, Reference::without_adapters), weights, batches);
    ASSERT_TRUE(got.step.preferences);
    expect_sums(*got.step.preferences, want, labels);
    expect_sums(got.evaluated, want, labels);
    EXPECT_NEAR(got.step.loss, want.loss, 1e-13);
    for (const auto& [name, gradient] : got.gradients) {
      if (name.find(".lora_") == std::string::npos) {
        EXPECT_TRUE(std::ranges::all_of(gradient, [](double d) { return d == 0; })) << name;
        continue;
      }
      for (const std::size_t e : {gradient.size() / 3}) {
        const auto loss_at = [&](double by) {
          auto moved = weights;
          moved.at(name)[e] += by;
          return want_of(losses_alone(setup, moved, documents), fixed, labels, want.z).loss;
        };
        EXPECT_NEAR(gradient[e], slope_of(loss_at), 1e-8) << name << " " << e;
      }
    }
  }
}

// The reference's losses are above the model's, so that z is not 0, and below them.
TEST_P(Labeled, OfAWholeModelAgainstScores) {
  const auto setup = test::without_adapters(GetParam().setup);
  const auto weights = some_weights(setup, 0);
  const auto& labels = all_labels[0];
  for (const double by : {0.9, -0.9}) {
    auto batches = labeled_batches(setup, labels);
    const auto documents = documents_of(batches);
    auto fixed = losses_alone(setup, weights, documents);
    for (std::size_t d = 0; d < fixed.size(); ++d)
      fixed[d] += by + 0.8 * std::sin(static_cast<double>(d));
    auto next = fixed.begin();
    for (auto& b : batches) {
      b.reference_D.assign(next, next + documents_in(b));
      next += documents_in(b);
    }
    const auto want = want_of(losses_alone(setup, weights, documents), fixed, labels);
    EXPECT_EQ(want.z > 0, by > 0);
    const auto got = outcome_of(kto_setup(setup, Reference::given), weights, batches);
    ASSERT_TRUE(got.step.preferences);
    expect_sums(*got.step.preferences, want, labels);
    expect_sums(got.evaluated, want, labels);
    for (const auto& [name, gradient] : got.gradients)
      for (const std::size_t e : {std::size_t{0}, gradient.size() - 1}) {
        const auto loss_at = [&](double d) {
          auto moved = weights;
          moved.at(name)[e] += d;
          return want_of(losses_alone(setup, moved, documents), fixed, labels, want.z).loss;
        };
        EXPECT_NEAR(gradient[e], slope_of(loss_at), 1e-8) << name << " " << e;
      }
  }
}

// z is of all answers that are evaluated, however many of them a call scores.
TEST(Labeled, IsEvaluatedAsAWhole) {
  const auto setup = with_adapters(test::tiny_llama());
  const auto batches = labeled_batches(setup, all_labels[0]);
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, kto_setup(setup, Reference::without_adapters));
  test::write_all(trainer.store(), some_weights(setup, 0.3));
  const auto whole = trainer.evaluate_pairs(trainer.score_pairs(batches));
  std::vector<ScoredPair> pairs;
  for (const auto& b : batches)
    for (const auto& p : trainer.score_pairs({&b, 1})) pairs.push_back(p);
  const auto got = trainer.evaluate_pairs(pairs);
  EXPECT_EQ(got.loss, whole.loss);
  EXPECT_EQ(got.z, whole.z);
  EXPECT_EQ(got.preferred, whole.preferred);
}

TEST(Labeled, HasNoMeanOfALabelThatIsAbsent) {
  PreferenceSums sums;
  sums += weighted(kto, {{3, 4}, {1, 1}, true}, 0).sums;
  EXPECT_NEAR(sums.reward_chosen(), 0.7, 1e-15);
  EXPECT_TRUE(std::isnan(sums.reward_rejected()));
  EXPECT_TRUE(std::isnan(sums.margin()));
  EXPECT_EQ(sums.accuracy(), 1);
}

// Losses by the formula, and weights by differences of them, in 60 digits (Python's decimal).
TEST(Labeled, HasTheNumbersOfTheFormula) {
  const Kto o{0.3, 1.25, 0.75};
  const auto expect = [&](const ScoredDocument& answer, bool desirable, double z,
                          const LabeledResult& want) {
    const auto got = result_of(o, answer, desirable, z);
    EXPECT_NEAR(got.loss, want.loss, 1e-14 * std::fabs(want.loss));
    EXPECT_NEAR(got.reward, want.reward, 1e-14 * std::fabs(want.reward));
    EXPECT_NEAR(got.weight, want.weight, 1e-14 * std::fabs(want.weight));
  };
  expect({3.5, 4.75}, true, 0.125, {0.54727937389275239, 0.375, 0.092300281026599387});
  expect({3.5, 4.75}, false, 0.125, {0.42163237566434858, 0.375, -0.055380168615959631});
  expect({9.5, 4.25}, true, 0, {1.035619037530749, -1.575, 0.053284081444157139});
  expect({9.5, 4.25}, false, 2.5, {0.012531227696541195, -1.575, -0.0036965556419293337});
  for (const double policy : {0.0, 5000.0})
    for (const bool desirable : {true, false}) {
      const auto r = result_of(Kto{1}, {policy, 2500}, desirable, 0);
      EXPECT_EQ(r.loss, desirable == (policy > 0) ? 1 : 0);
      EXPECT_EQ(r.weight, 0);
    }
}

TEST(Labeled, HasAReferencePointThatIsNotNegative) {
  const std::vector<ScoredPair> all{{{9, 1}, {3, 4.5}}, {{9, 1}, {3, 2}, false}};
  const auto sum = mismatch_of(kto, all);
  EXPECT_EQ(sum.log_ratio, 0.5);
  EXPECT_EQ(sum.answers, 2);
  EXPECT_DOUBLE_EQ(reference_point(kto, sum), 0.7 * 0.25);
  EXPECT_EQ(reference_point(kto, {-0.5, 2}), 0);
  EXPECT_TRUE(std::isnan(reference_point(kto, {std::nan(""), 2})));
  EXPECT_EQ(mismatch_of(PairLoss(Dpo{}), all).answers, 0);
}

}  // namespace
}  // namespace trireme
