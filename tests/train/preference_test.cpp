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
using test::write_all;

constexpr double beta = 0.7;

TrainerSetup dpo_setup(const ModelConfig& c) {
  auto s = test::setup_of(c, test::plain_sgd(), DType::f64);
  s.attention = AttentionSpan::document;
  s.objective = PreferenceTraining{Dpo{beta}};
  return s;
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

PreferenceSums want_of(const ModelConfig& c, const Weights& weights,
                       std::span<const Batch> batches) {
  std::vector<Batch> documents;
  for (const auto& b : batches)
    for (auto& d : documents_alone(b)) documents.push_back(std::move(d));
  return sums_of(losses_alone(c, weights, documents),
                 losses_alone(without_adapters(c), weights, documents));
}

void expect_near(PreferenceSums got, PreferenceSums want) {
  const auto a = got.fields(), b = want.fields();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(*a[i], *b[i], 1e-12) << i;
}

class Preferences : public testing::TestWithParam<PreferenceModel> {};
INSTANTIATE_TEST_SUITE_P(Train, Preferences, testing::ValuesIn(preference_models()),
                         [](const auto& i) { return std::string(i.param.name); });

TEST_P(Preferences, AreThoseOfEachPairAlone) {
  const auto& c = GetParam().model;
  const auto weights = some_weights(c, 0.3);
  const std::vector<Batch> batches{batch_of(c, 0, 2), batch_of(c, 2, 2)};
  const auto want = want_of(c, weights, batches);
  EXPECT_EQ(want.pairs, 6);
  EXPECT_GT(want.preferred, 0);
  EXPECT_LT(want.preferred, want.pairs);
  const auto got = outcome_of(dpo_setup(c), weights, batches);
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
        return want_of(c, moved, batches).loss / 6;
      };
      EXPECT_NEAR(gradient[e], slope_of(loss_at), 1e-8) << name << " " << e;
    }
  }
}

TEST_P(Preferences, BeginWithNone) {
  auto c = GetParam().model;
  c.dropout = 0.3;
  const std::vector<Batch> batches{batch_of(c, 0, 4)};
  const auto got = outcome_of(dpo_setup(c), some_weights(c, 0), batches);
  EXPECT_DOUBLE_EQ(got.step.loss, std::log(2));
  EXPECT_EQ(got.step.preferences->margin(), 0);
  EXPECT_EQ(got.step.preferences->preferred, 0);
  EXPECT_EQ(got.step.preferences->chosen, 0);
  EXPECT_GT(got.step.grad_norm, 0);
}

// The same mask in the pass that measures and in the one with gradients; none in evaluation.
TEST(Preferences, DropoutHasTheGradientOfItsMask) {
  auto c = with_adapters(test::tiny_llama());
  c.adapter.dropout = 0.4;
  const auto weights = some_weights(c, 0.3);
  const std::vector<Batch> batches{batch_of(c, 0, 2), batch_of(c, 2, 2)};
  const auto got = outcome_of(dpo_setup(c), weights, batches);
  expect_near(got.evaluated, want_of(c, weights, batches));
  EXPECT_NE(got.step.preferences->loss, got.evaluated.loss);
  const std::string name = "blocks.0.qkv.lora_a";
  for (const std::size_t e : {1U, 40U, 100U}) {
    const auto loss_at = [&](double by) {
      auto moved = weights;
      moved.at(name)[e] += by;
      return outcome_of(dpo_setup(c), moved, batches).step.loss;
    };
    EXPECT_NEAR(got.gradients.at(name)[e], slope_of(loss_at), 1e-8) << e;
  }
}

// Losses of all of a model's weights, which need no other model: pair by pair, of documents alone.
TEST_P(Preferences, WithoutAReferenceAreThoseOfEachPairAlone) {
  const auto c = without_adapters(GetParam().model);
  auto weights = some_weights(c, 0);
  for (auto& [name, values] : weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += 0.05 * std::sin(static_cast<double>(3 * i + name.size()));
  std::vector<Batch> batches{batch_of(c, 0, 2), batch_of(c, 2, 2)};
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
      const auto sums = losses_alone(c, w, documents);
      double all = 0;
      const auto per_token = [&](std::size_t d) {
        return -sums[d] / static_cast<double>(targets_of(documents[d]));
      };
      for (std::size_t d = 0; d < sums.size(); d += 2)
        all += formula(per_token(d), per_token(d + 1));
      return all / 6;
    };
    auto setup = dpo_setup(c);
    setup.objective = PreferenceTraining{loss, Reference::none};
    const auto got = outcome_of(setup, weights, batches);
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

TrainerSetup setup_of_scores(const ModelConfig& c) {
  auto s = dpo_setup(c);
  s.objective = PreferenceTraining{Dpo{beta}, Reference::given};
  return s;
}

// All of a model is trained, against another one whose losses batches bring.
TEST_P(Preferences, OfAWholeModelAreThoseAgainstTheScores) {
  const auto c = without_adapters(GetParam().model);
  const auto fixed = some_weights(c, 0);
  auto weights = fixed;
  for (auto& [name, values] : weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += 0.05 * std::sin(static_cast<double>(3 * i + name.size()));
  std::vector<Batch> batches{with_reference(c, fixed, batch_of(c, 0, 2)),
                             with_reference(c, fixed, batch_of(c, 2, 2))};
  const auto loss_of = [&](const Weights& policy) {
    PreferenceSums all;
    for (const auto& b : batches)
      all += sums_of(losses_alone(c, policy, documents_alone(b)), b.reference_D);
    return all;
  };
  const auto want = loss_of(weights);
  ASSERT_EQ(want.pairs, 6);
  const auto got = outcome_of(setup_of_scores(c), weights, batches);
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
  const auto& c = GetParam().model;
  const auto weights = some_weights(c, 0.3);
  std::vector<Batch> batches{batch_of(c, 0, 2), batch_of(c, 2, 2)};
  const auto computed = outcome_of(dpo_setup(c), weights, batches);
  Ref backend;
  const Workspace scratch(backend);
  auto plain = dpo_setup(without_adapters(c));
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
  const auto given = outcome_of(setup_of_scores(c), weights, batches);
  expect_near(given.evaluated, computed.evaluated);
  expect_near(*given.step.preferences, *computed.step.preferences);
  EXPECT_NEAR(given.step.grad_norm, computed.step.grad_norm, 1e-12 * computed.step.grad_norm);

  batches[1].reference_D.pop_back();
  EXPECT_THROW(outcome_of(setup_of_scores(c), weights, batches), Error);
}

// The passes are two of five parts of a step's work, or one of four.
TEST(Preferences, AStepIsDroppedBehindThePasses) {
  const auto c = with_adapters(test::tiny_llama());
  const auto weights = some_weights(c, 0.1);
  const auto fixed = without_adapters(c);
  const std::vector<Batch> batches{with_reference(fixed, weights, batch_of(c, 0, 2)),
                                   with_reference(fixed, weights, batch_of(c, 2, 2))};
  for (const bool gives_up : {true, false})
    for (const auto reference : {Reference::without_adapters, Reference::given}) {
      Ref backend;
      const Workspace scratch(backend);
      auto setup = dpo_setup(c);
      setup.objective = PreferenceTraining{Dpo{beta}, reference};
      Trainer trainer(backend, {}, setup);
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
  auto c = test::tiny_llama();
  c.context = T;
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, dpo_setup(completed(c)));
  trainer.store().initialize(3, 1);
  const auto batch = batch_of(c, 0, 1);
  EXPECT_THROW(trainer.score_pairs({&batch, 1}), Error);
}

}  // namespace
}  // namespace trireme
