// Objectives of pairs (dpo, simpo, orpo): pairs that share samples have the loss of each pair
// alone, made of the losses of documents that stand in samples of their own, of two models that
// know nothing of pairs; gradients agree with differences of that loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/ref/ref.hpp"
#include "tests/support/named_weights.hpp"

namespace trireme {
namespace {

constexpr std::int64_t T = 14;
constexpr double beta = 0.7;

using test::Weights;
using test::weights_of;
using test::without_adapters;
using test::write_all;

// Begins of documents, two of them a pair, and where padding begins.
struct Sample {
  std::vector<std::int32_t> begins;
  std::int64_t end;
};
const std::vector<Sample> samples{
    {{0, 5}, 14}, {{0, 1, 4, 9}, 12}, {{0, 6}, 9}, {{0, 3, 7, 8}, 14}};

Batch batch_of(const TrainerSetup& setup, std::size_t first, std::size_t count) {
  auto b =
      test::random_batch(setup, static_cast<std::int64_t>(count), static_cast<std::int64_t>(first));
  for (std::size_t s = 0; s < count; ++s) {
    const auto& [begins, end] = samples[first + s];
    b.tokens_B.push_back(end);
    for (std::int32_t t = 0; t < T; ++t) {
      b.start_BT.push_back(t < end ? *std::prev(std::ranges::upper_bound(begins, t)) : t);
      auto& target = b.targets_BT[s * T + static_cast<std::size_t>(t)];
      if (t >= end) target = no_target;
    }
  }
  b.valid = std::ranges::count_if(b.targets_BT, [](auto t) { return t != no_target; });
  return b;
}

// Each document at the begin of a sample; a pair's two follow each other.
std::vector<Batch> documents_alone(const Batch& b) {
  std::vector<Batch> all;
  for (std::size_t s = 0; s < b.sample_B.size(); ++s) {
    const auto at = [&](std::int64_t t) { return s * T + static_cast<std::size_t>(t); };
    for (std::int64_t t = 0; t < b.tokens_B[s]; ++t) {
      const auto start = b.start_BT[at(t)];
      if (start == t)
        all.push_back(
            {std::vector<std::int32_t>(T, 0), std::vector<std::int32_t>(T, no_target), {0}, 0});
      const auto to = static_cast<std::size_t>(t - start);
      all.back().ids_BT[to] = b.ids_BT[at(t)];
      all.back().targets_BT[to] = b.targets_BT[at(t)];
    }
  }
  return all;
}

TrainerSetup dpo_setup(ModelConfig c) {
  c.max_context = T;
  auto s = test::setup_of(c, test::plain_sgd(), DType::f64);
  s.attention = AttentionSpan::document;
  s.objective = PairTraining{Dpo{beta}};
  return s;
}

TrainerSetup with_adapters(const ModelConfig& c) {
  auto s = dpo_setup(c);
  s.adapter.rank = 3;
  return s;
}

// As initialized, with b of this size, which begins at zero.
Weights some_weights(const TrainerSetup& setup, double size) {
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(3, 1);
  auto all = weights_of(trainer.store());
  for (auto& [name, values] : all)
    if (name.ends_with(".lora_b"))
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = size * std::sin(static_cast<double>(i + name.size()));
  return all;
}

std::vector<double> losses_alone(TrainerSetup setup, const Weights& weights,
                                 std::span<const Batch> documents) {
  setup.attention = AttentionSpan::causal;
  setup.objective = TokenTraining{};
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  write_all(trainer.store(), weights);
  return trainer.losses(documents);
}

// Rafailov et al. 2023, equation 7, pair by pair.
PreferenceSums sums_of(const std::vector<double>& policy, const std::vector<double>& reference) {
  PreferenceSums all;
  for (std::size_t d = 0; d < policy.size(); d += 2) {
    const double chosen = beta * (reference[d] - policy[d]),
                 rejected = beta * (reference[d + 1] - policy[d + 1]);
    all.loss += -std::log(1 / (1 + std::exp(-(chosen - rejected))));
    all.margin += chosen - rejected;
    all.preferred += chosen > rejected;
    all.chosen += chosen;
    all.rejected += rejected;
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

// At 0, of fourth order: of this model the third derivative, with beta, hides digits otherwise.
template <class F>
double slope_of(const F& f) {
  const double h = 1e-4;
  return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
}

void expect_near(PreferenceSums got, PreferenceSums want) {
  const auto a = got.fields(), b = want.fields();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(*a[i], *b[i], 1e-12) << i;
}

struct Outcome {
  StepResult step;
  PreferenceSums evaluated;
  Weights gradients;  // SGD with rate 1 subtracts them
};
Outcome outcome_of(const TrainerSetup& setup, const Weights& weights,
                   std::span<const Batch> batches) {
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  write_all(trainer.store(), weights);
  Outcome o;
  o.evaluated = trainer.evaluate_pairs(batches);
  o.step = trainer.step(0, 1, batches);
  o.gradients = weights_of(trainer.store());
  for (auto& [name, values] : o.gradients)
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = weights.at(name)[i] - values[i];
  return o;
}

struct Case {
  const char* name;
  TrainerSetup setup;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}
std::vector<Case> cases() {
  std::vector<Case> all = {{"gpt2", with_adapters(test::tiny_gpt2())},
                           {"llama", with_adapters(test::tiny_llama())},
                           {"qwen", with_adapters(test::tiny_qwen())},
                           {"mixture", with_adapters(test::tiny_mixture())}};
  all.push_back({"llama_recompute", all[1].setup});
  all.back().setup.recompute = Recompute::block;
  return all;
}
class Preferences : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Train, Preferences, testing::ValuesIn(cases()),
                         [](const auto& i) { return std::string(i.param.name); });

TEST_P(Preferences, AreThoseOfEachPairAlone) {
  const auto& setup = GetParam().setup;
  const auto weights = some_weights(setup, 0.3);
  const std::vector<Batch> batches{batch_of(setup, 0, 2), batch_of(setup, 2, 2)};
  const auto want = want_of(setup, weights, batches);
  EXPECT_EQ(want.pairs, 6);
  EXPECT_GT(want.preferred, 0);
  EXPECT_LT(want.preferred, want.pairs);
  const auto got = outcome_of(setup, weights, batches);
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
  const auto got = outcome_of(setup, some_weights(setup, 0), batches);
  EXPECT_DOUBLE_EQ(got.step.loss, std::log(2));
  EXPECT_EQ(got.step.preferences->margin, 0);
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
  const auto got = outcome_of(setup, weights, batches);
  expect_near(got.evaluated, want_of(setup, weights, batches));
  EXPECT_NE(got.step.preferences->loss, got.evaluated.loss);
  const std::string name = "blocks.0.qkv.lora_a";
  for (const std::size_t e : {1U, 40U, 100U}) {
    const auto loss_at = [&](double by) {
      auto moved = weights;
      moved.at(name)[e] += by;
      return outcome_of(setup, moved, batches).step.loss;
    };
    EXPECT_NEAR(got.gradients.at(name)[e], slope_of(loss_at), 1e-8) << e;
  }
}

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

std::int64_t targets_of(const Batch& document) {
  return std::ranges::count_if(document.targets_BT, [](auto t) { return t != no_target; });
}

// Losses of all of a model's weights, which need no other model: pair by pair, of documents alone.
TEST_P(Preferences, WithoutAReferenceAreThoseOfEachPairAlone) {
  const auto plain = without_adapters(GetParam().setup);
  auto weights = some_weights(plain, 0);
  for (auto& [name, values] : weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += 0.05 * std::sin(static_cast<double>(3 * i + name.size()));
  std::vector<Batch> batches{batch_of(plain, 0, 2), batch_of(plain, 2, 2)};
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
      const auto sums = losses_alone(plain, w, documents);
      double all = 0;
      const auto per_token = [&](std::size_t d) {
        return -sums[d] / static_cast<double>(targets_of(documents[d]));
      };
      for (std::size_t d = 0; d < sums.size(); d += 2)
        all += formula(per_token(d), per_token(d + 1));
      return all / 6;
    };
    auto setup = plain;
    setup.objective = PairTraining{loss, Reference::none};
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

// The losses of the documents come first, and no other pass.
TEST(Preferences, WithoutAReferenceNeedOnePassBefore) {
  const auto none = passes_of_step(PairTraining{Orpo{}, Reference::none});
  EXPECT_EQ(none, (std::vector{StepPass::policy_losses, StepPass::gradients}));
  EXPECT_EQ(progress_of(none, 1, 4).done, 7);
  EXPECT_EQ(progress_of(none, 1, 4).of, 16);
  const auto tokens = passes_of_step(TokenTraining{});
  EXPECT_EQ(progress_of(tokens, 3, 4).done, 3);
  EXPECT_EQ(progress_of(tokens, 3, 4).of, 4);
}

// Minus the log-probabilities of a batch's documents, each alone.
Batch with_reference(const TrainerSetup& setup, const Weights& weights, Batch b) {
  b.reference_D = losses_alone(setup, weights, documents_alone(b));
  return b;
}

TrainerSetup setup_of_scores(TrainerSetup s) {
  s.objective = PairTraining{Dpo{beta}, Reference::given};
  return s;
}

// All of a model is trained, against another one whose losses batches bring.
TEST_P(Preferences, OfAWholeModelAreThoseAgainstTheScores) {
  const auto plain = without_adapters(GetParam().setup);
  const auto fixed = some_weights(plain, 0);
  auto weights = fixed;
  for (auto& [name, values] : weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += 0.05 * std::sin(static_cast<double>(3 * i + name.size()));
  std::vector<Batch> batches{with_reference(plain, fixed, batch_of(plain, 0, 2)),
                             with_reference(plain, fixed, batch_of(plain, 2, 2))};
  const auto loss_of = [&](const Weights& policy) {
    PreferenceSums all;
    for (const auto& b : batches)
      all += sums_of(losses_alone(plain, policy, documents_alone(b)), b.reference_D);
    return all;
  };
  const auto want = loss_of(weights);
  ASSERT_EQ(want.pairs, 6);
  const auto got = outcome_of(setup_of_scores(plain), weights, batches);
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
  const auto computed = outcome_of(setup, weights, batches);
  Ref backend;
  const Workspace scratch(backend);
  auto plain = without_adapters(setup);
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
  const auto policy = with_adapters(test::tiny_llama());
  const auto weights = some_weights(policy, 0.1);
  const auto fixed = without_adapters(policy);
  const std::vector<Batch> batches{with_reference(fixed, weights, batch_of(policy, 0, 2)),
                                   with_reference(fixed, weights, batch_of(policy, 2, 2))};
  for (const bool gives_up : {true, false})
    for (const auto reference : {Reference::without_adapters, Reference::given}) {
      Ref backend;
      const Workspace scratch(backend);
      auto setup = policy;
      setup.objective = PairTraining{Dpo{beta}, reference};
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
  const auto setup = dpo_setup(test::tiny_llama());
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(3, 1);
  const auto batch = batch_of(setup, 0, 1);
  EXPECT_THROW(trainer.evaluate_pairs({&batch, 1}), Error);
}

}  // namespace
}  // namespace trireme
