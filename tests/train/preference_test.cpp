// Objectives of pairs (dpo, simpo, orpo): pairs that share samples have the loss of each pair
// alone, made of the losses of documents that stand in samples of their own, of two models that
// know nothing of pairs; gradients agree with differences of that loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/train/preference_runs.hpp"

namespace trireme {
namespace {

using namespace test::preferences;
using test::Weights;
using test::weights_of;
using test::without_adapters;
using test::write_all;

constexpr double beta = 0.7;

TrainerSetup dpo_setup(const TrainerSetup& s) {
  return with_objective(s, {Dpo{beta}});
}

// Rafailov et al. 2023, equation 7, pair by pair.
PreferenceSums sums_of(const std::vector<double>& policy, const std::vector<double>& reference) {
  PreferenceSums all;
  for (std::size_t d = 0; d < policy.size(); d += 2) {
    const double chosen = beta * (reference[d] - policy[d]),
                 rejected = beta * (reference[d + 1] - policy[d + 1]);
    all.loss += -std::log(1 / (1 + std::exp(-(chosen - rejected))));
    all.preferred += chosen > rejected;
    all.chosen += chosen;
    all.rejected += rejected;
    ++all.of_chosen;
    ++all.of_rejected;
    ++all.pairs;
  }
  return all;
}

PreferenceSums want_of(const TrainerSetup& setup, const Weights& weights,
                       std::span<const Batch> batches) {
  std::vector<Batch> documents;
  for (const auto& b : batches)
    for (auto& d : documents_alone(b)) documents.push_back(std::move(d));
  return sums_of(losses_alone(setup, weights, documents),
                 losses_alone(without_adapters(setup), weights, documents));
}

void expect_near(PreferenceSums got, PreferenceSums want) {
  const auto a = got.fields(), b = want.fields();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(*a[i], *b[i], 1e-12) << i;
}

class Preferences : public testing::TestWithParam<PreferenceModel> {};
INSTANTIATE_TEST_SUITE_P(Train, Preferences, testing::ValuesIn(preference_models()),
                         [](const auto& i) { return std::string(i.param.name); });

TEST_P(Preferences, AreThoseOfEachPairAlone) {
  const auto& setup = GetParam().setup;
  const auto weights = some_weights(setup, 0.3);
  const std::vector<Batch> batches{batch_of(setup, 0, 2), batch_of(setup, 2, 2)};
  const auto want = want_of(setup, weights, batches);
  EXPECT_EQ(want.pairs, 6);
  EXPECT_GT(want.preferred, 0);
  EXPECT_LT(want.preferred, want.pairs);
  const auto got = outcome_of(dpo_setup(setup), weights, batches);
  expect_near(got.evaluated, want);
  ASSERT_TRUE(got.step.preferences);
  expect_near(*got.step.preferences, want);
  EXPECT_NEAR(got.step.loss, want.loss / 6, 1e-13);

  for (const auto& [name, gradient] : got.gradients) {
    if (name.find(".lora_") == std::string::npos) {
      EXPECT_TRUE(std::ranges::all_of(gradient, [](double d) { return d == 0; })) << name;
      continue;
    }
    for (const std::size_t e : {std::size_t{0}, gradient.size() / 3, gradient.size() - 1}) {
      const auto loss_at = [&](double by) {
        auto moved = weights;
        moved.at(name)[e] += by;
        return want_of(setup, moved, batches).loss / 6;
      };
      EXPECT_NEAR(gradient[e], slope_of(loss_at), 1e-8) << name << " " << e;
    }
  }
}

TEST_P(Preferences, BeginWithNone) {
  auto setup = GetParam().setup;
  setup.dropout = 0.3;
  const std::vector<Batch> batches{batch_of(setup, 0, 4)};
  const auto got = outcome_of(dpo_setup(setup), some_weights(setup, 0), batches);
  EXPECT_DOUBLE_EQ(got.step.loss, std::log(2));
  EXPECT_EQ(got.step.preferences->margin(), 0);
  EXPECT_EQ(got.step.preferences->preferred, 0);
  EXPECT_EQ(got.step.preferences->chosen, 0);
  EXPECT_GT(got.step.grad_norm, 0);
}

// The same mask in the pass that measures and in the one with gradients; none in evaluation.
TEST(Preferences, DropoutHasTheGradientOfItsMask) {
  auto setup = with_adapters(test::tiny_llama());
  setup.adapter.dropout = 0.4;
  const auto weights = some_weights(setup, 0.3);
  const std::vector<Batch> batches{batch_of(setup, 0, 2), batch_of(setup, 2, 2)};
  const auto got = outcome_of(dpo_setup(setup), weights, batches);
  expect_near(got.evaluated, want_of(setup, weights, batches));
  EXPECT_NE(got.step.preferences->loss, got.evaluated.loss);
  const std::string name = "blocks.0.qkv.lora_a";
  for (const std::size_t e : {1U, 40U, 100U}) {
    const auto loss_at = [&](double by) {
      auto moved = weights;
      moved.at(name)[e] += by;
      return outcome_of(dpo_setup(setup), moved, batches).step.loss;
    };
    EXPECT_NEAR(got.gradients.at(name)[e], slope_of(loss_at), 1e-8) << e;
  }
}

// Losses of all of a model's weights, which need no other model: pair by pair, of documents alone.
TEST_P(Preferences, WithoutAReferenceAreThoseOfEachPairAlone) {
  const auto setup = without_adapters(GetParam().setup);
  auto weights = some_weights(setup, 0);
  for (auto& [name, values] : weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += 0.05 * std::sin(static_cast<double>(3 * i + name.size()));
  std::vector<Batch> batches{batch_of(setup, 0, 2), batch_of(setup, 2, 2)};
  auto& masked = batches[0].targets_BT[1];  // so that documents of a length have other numbers
  masked = no_target;
  --batches[0].valid;
  std::vector<Batch> documents;
  for (const auto& b : batches)
    for (auto& d : documents_alone(b)) documents.push_back(std::move(d));
  // Per token: Meng et al. 2024, equation 6; Hong et al. 2024, equations 4 to 7.
  const auto simpo = [](double chosen, double rejected) {
    return -std::log(1 / (1 + std::exp(-(1.5 * (chosen - rejected) - 0.4))));
  };
  const auto orpo = [](double chosen, double rejected) {
    const auto odds = [](double p) { return p / (1 - p); };
    const double ratio = odds(std::exp(chosen)) / odds(std::exp(rejected));
    return -chosen - 0.6 * std::log(1 / (1 + 1 / ratio));
  };
  const auto check = [&](const PairLoss& loss, const auto& formula) {
    const auto loss_of = [&](const Weights& w) {
      const auto sums = losses_alone(setup, w, documents);
      double all = 0;
      const auto per_token = [&](std::size_t d) {
        return -sums[d] / static_cast<double>(targets_of(documents[d]));
      };
      for (std::size_t d = 0; d < sums.size(); d += 2)
        all += formula(per_token(d), per_token(d + 1));
      return all / 6;
    };
    const auto got = outcome_of(with_objective(setup, {loss, Reference::none}), weights, batches);
    ASSERT_TRUE(got.step.preferences);
    EXPECT_EQ(got.step.preferences->pairs, 6);
    EXPECT_NEAR(got.step.loss, loss_of(weights), 1e-12);
    EXPECT_NEAR(got.evaluated.loss / 6, loss_of(weights), 1e-12);
    for (const auto& [name, gradient] : got.gradients)
      for (const std::size_t e : {std::size_t{0}, gradient.size() / 3, gradient.size() - 1}) {
        const auto loss_at = [&](double by) {
          auto moved = weights;
          moved.at(name)[e] += by;
          return loss_of(moved);
        };
        EXPECT_NEAR(gradient[e], slope_of(loss_at), 1e-8) << name << " " << e;
      }
  };
  check(Simpo{1.5, 0.4}, simpo);
  check(Orpo{0.6}, orpo);
}

TrainerSetup setup_of_scores(const TrainerSetup& s) {
  return with_objective(s, {Dpo{beta}, Reference::given});
}

// All of a model is trained, against another one whose losses batches bring.
TEST_P(Preferences, OfAWholeModelAreThoseAgainstTheScores) {
  const auto setup = without_adapters(GetParam().setup);
  const auto fixed = some_weights(setup, 0);
  auto weights = fixed;
  for (auto& [name, values] : weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += 0.05 * std::sin(static_cast<double>(3 * i + name.size()));
  std::vector<Batch> batches{with_reference(setup, fixed, batch_of(setup, 0, 2)),
                             with_reference(setup, fixed, batch_of(setup, 2, 2))};
  const auto loss_of = [&](const Weights& policy) {
    PreferenceSums all;
    for (const auto& b : batches)
      all += sums_of(losses_alone(setup, policy, documents_alone(b)), b.reference_D);
    return all;
  };
  const auto want = loss_of(weights);
  ASSERT_EQ(want.pairs, 6);
  const auto got = outcome_of(setup_of_scores(setup), weights, batches);
  expect_near(got.evaluated, want);
  ASSERT_TRUE(got.step.preferences);
  expect_near(*got.step.preferences, want);
  EXPECT_NEAR(got.step.loss, want.loss / 6, 1e-13);
  for (const auto& [name, gradient] : got.gradients) {
    for (const std::size_t e : {std::size_t{0}, gradient.size() / 3, gradient.size() - 1}) {
      const auto loss_at = [&](double by) {
        auto moved = weights;
        moved.at(name)[e] += by;
        return loss_of(moved).loss / 6;
      };
      EXPECT_NEAR(gradient[e], slope_of(loss_at), 1e-8) << name << " " << e;
    }
  }
}

// What a Trainer of the model says of documents that share samples is what saves the other pass.
TEST_P(Preferences, AgainstScoresAreThoseAgainstThePass) {
  const auto& setup = GetParam().setup;
  const auto weights = some_weights(setup, 0.3);
  std::vector<Batch> batches{batch_of(setup, 0, 2), batch_of(setup, 2, 2)};
  const auto computed = outcome_of(dpo_setup(setup), weights, batches);
  Ref backend;
  const Workspace scratch(backend);
  auto plain = dpo_setup(without_adapters(setup));
  plain.trainable = false;
  Trainer base(backend, {}, plain);
  write_all(base.store(), weights);
  const auto scores = base.losses_of_documents(batches);
  ASSERT_EQ(std::ssize(scores), 12);
  auto next = scores.begin();
  for (auto& b : batches) {
    const auto n = documents_in(b);
    b.reference_D.assign(next, next + n);
    next += n;
  }
  const auto given = outcome_of(setup_of_scores(setup), weights, batches);
  expect_near(given.evaluated, computed.evaluated);
  expect_near(*given.step.preferences, *computed.step.preferences);
  EXPECT_NEAR(given.step.grad_norm, computed.step.grad_norm, 1e-12 * computed.step.grad_norm);

  batches[1].reference_D.pop_back();
  EXPECT_THROW(outcome_of(setup_of_scores(setup), weights, batches), Error);
}

// The passes are two of five parts of a step's work, or one of four.
TEST(Preferences, AStepIsDroppedBehindThePasses) {
  const auto setup = with_adapters(test::tiny_llama());
  const auto weights = some_weights(setup, 0.1);
  const auto fixed = without_adapters(setup);
  const std::vector<Batch> batches{with_reference(fixed, weights, batch_of(setup, 0, 2)),
                                   with_reference(fixed, weights, batch_of(setup, 2, 2))};
  for (const bool gives_up : {true, false})
    for (const auto reference : {Reference::without_adapters, Reference::given}) {
      Ref backend;
      const Workspace scratch(backend);
      Trainer trainer(backend, {}, with_objective(setup, {Dpo{beta}, reference}));
      write_all(trainer.store(), weights);
      std::vector<std::pair<int, int>> asked;
      const auto result = trainer.step(0, 1, batches, [&](int done, int of) {
        asked.emplace_back(done, of);
        return gives_up;
      });
      EXPECT_EQ(result.outcome, gives_up ? StepOutcome::dropped : StepOutcome::updated);
      const int passes = reference == Reference::given ? 2 : 4;
      std::vector<std::pair<int, int>> want{{passes, passes + 6}};
      if (!gives_up) want.emplace_back(passes + 3, passes + 6);
      EXPECT_EQ(asked, want);
      EXPECT_EQ(weights_of(trainer.store()) == weights, gives_up);
    }
}

TEST(Preferences, NeedAModelToCompareWith) {
  const auto setup = dpo_setup(whole_model(test::tiny_llama()));
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(3, 1);
  const auto batch = batch_of(setup, 0, 1);
  EXPECT_THROW(trainer.score_pairs({&batch, 1}), Error);
}

}  // namespace
}  // namespace trireme
