// Weights of documents: a step's loss and gradient are the weighted means of those of steps that
// train on one document alone, without weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/open/open.hpp"
#include "kernels/ref/ref.hpp"
#include "lib/train/weighted_losses.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

struct Case {
  const char* name;
  ModelConfig model;
  bool taught = false;
  std::int64_t adapter_rank = 0;
  Recompute recompute = Recompute::none;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}
std::vector<Case> cases() {
  return {{"gpt2", test::tiny_gpt2()},
          {"gemma", test::tiny_gemma2(), false, 0, Recompute::block},
          {"mixture", test::tiny_mixture()},
          {"adapters", test::tiny_llama(), false, 2},
          {"taught", test::tiny_gpt2(), true},
          {"gemma_taught", test::tiny_gemma2(), true}};
}

TrainerSetup setup_of(const Case& c) {
  auto s = test::setup_of(c.model, test::plain_sgd(), DType::f64);
  s.recompute = c.recompute;
  s.adapter.rank = c.adapter_rank;
  if (!c.taught) return s;
  auto teacher = test::tiny_llama();
  teacher.vocab = c.model.vocab;
  teacher.max_context = c.model.max_context;
  s.objective = TeacherSetup{teacher, 1.7, 0.6};
  return s;
}

struct Outcome {
  StepResult step;
  std::vector<double> gradient;  // of all parameters, from the change of weights
};

template <class T = double>
Outcome outcome_of(Backend& backend, const TrainerSetup& setup, std::span<const Batch> batches) {
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(3, 1);
  if (trainer.teacher()) trainer.teacher()->store().initialize(4, 1);
  const auto before = test::read_all<T>(trainer.store());
  Outcome o{trainer.step(0, 1, batches), {}};
  const auto after = test::read_all<T>(trainer.store());
  for (std::size_t p = 0; p < before.size(); ++p)
    for (std::size_t e = 0; e < before[p].size(); ++e)
      o.gradient.push_back(static_cast<double>(before[p][e] - after[p][e]));
  return o;
}
Outcome outcome_of(const TrainerSetup& setup, std::span<const Batch> batches) {
  Ref backend;
  return outcome_of(backend, setup, batches);
}

std::vector<Batch> some_batches(const TrainerSetup& setup) {
  std::vector<Batch> all;
  for (int m = 0; m < 3; ++m) all.push_back(test::random_batch(setup, 2, 2 * m));
  // One micro-batch has no target.
  std::ranges::fill(all[1].targets_BT, no_target);
  all[1].valid = 0;
  return all;
}

// Documents of 1 to 5 tokens: their number by token of all micro-batches.
std::vector<std::vector<int>> documents_in(std::span<const Batch> batches) {
  std::vector<std::vector<int>> all;
  int number = 0, left = 1;
  for (const auto& b : batches) {
    auto& of_batch = all.emplace_back();
    for (std::size_t i = 0; i < b.ids_BT.size(); ++i) {
      of_batch.push_back(number);
      if (--left == 0) left = 1 + ++number % 5;
    }
  }
  return all;
}

class Weighted : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Train, Weighted, testing::ValuesIn(cases()),
                         [](const auto& i) { return std::string(i.param.name); });

TEST_P(Weighted, IsTheWeightedMeanOfDocumentsAlone) {
  const auto setup = setup_of(GetParam());
  const auto batches = some_batches(setup);
  const auto documents = documents_in(batches);
  constexpr std::array weights{1.0F, 0.1F, 7.0F, 2.0F, 0.001F, 30.0F};
  auto weighted = batches;
  double loss = 0, sum = 0;
  std::vector<double> gradient;
  for (int d = 0; d <= documents.back().back(); ++d) {
    const float w = weights[static_cast<std::size_t>(d) % weights.size()];
    auto alone = batches;
    std::int64_t targets = 0;
    for (std::size_t m = 0; m < batches.size(); ++m) {
      weighted[m].weight_BT.resize(documents[m].size());
      alone[m].valid = 0;
      for (std::size_t i = 0; i < documents[m].size(); ++i) {
        if (documents[m][i] == d) weighted[m].weight_BT[i] = w;
        if (documents[m][i] != d) alone[m].targets_BT[i] = no_target;
        alone[m].valid += alone[m].targets_BT[i] != no_target;
      }
      targets += alone[m].valid;
    }
    if (targets == 0) continue;
    const auto one = outcome_of(setup, alone);
    const double factor = static_cast<double>(w) * static_cast<double>(targets);
    sum += factor;
    loss += factor * one.step.loss;
    gradient.resize(one.gradient.size());
    for (std::size_t e = 0; e < gradient.size(); ++e) gradient[e] += factor * one.gradient[e];
  }
  const auto got = outcome_of(setup, weighted);
  EXPECT_NEAR(got.step.loss, loss / sum, 1e-12);
  EXPECT_EQ(got.step.valid, batches[0].valid + batches[2].valid);
  double worst = 0, squares = 0;
  for (std::size_t e = 0; e < gradient.size(); ++e) {
    worst = std::max(worst, std::fabs(got.gradient[e] - gradient[e] / sum));
    squares += std::pow(gradient[e] / sum, 2);
  }
  EXPECT_LT(worst, 1e-12);
  EXPECT_NEAR(got.step.grad_norm, std::sqrt(squares), 1e-10);
  // Without weights it is another step.
  EXPECT_GT(std::fabs(outcome_of(setup, batches).step.loss - got.step.loss), 1e-3);
}

// A step's gradient and loss do not depend on a common factor that is a power of two.
TEST(WeightedSteps, AConstantWeightHasTheBitsOfNone) {
  for (const std::int64_t exact_chunk : {0, 2})
    for (const auto* const name : {"ref", "host"}) {
      const auto backend = open_backend({.name = name, .threads = 2});
      auto model = test::tiny_llama();
      model.max_context = 8;
      auto setup = test::setup_of(completed(model), test::plain_sgd(), DType::f32);
      setup.exact_chunk = exact_chunk;
      auto batches = some_batches(setup);
      const auto plain = outcome_of<float>(*backend, setup, batches);
      for (const float w : {2.0F, 1.0F, 0.25F, 3.0F, 0.1F}) {
        SCOPED_TRACE(fmt::format("{} {} weight {}", name, exact_chunk, w));
        for (auto& b : batches) b.weight_BT.assign(b.ids_BT.size(), w);
        const auto weighted = outcome_of<float>(*backend, setup, batches);
        EXPECT_EQ(weighted.gradient, plain.gradient);
        EXPECT_EQ(weighted.step.grad_norm, plain.step.grad_norm);
        if (std::exp2(std::round(std::log2(w))) == w)
          EXPECT_EQ(weighted.step.loss, plain.step.loss);
        else
          EXPECT_NEAR(weighted.step.loss, plain.step.loss, 4e-16 * plain.step.loss);
      }
    }
}

// With counted sums, the number of micro-batches and where documents are divided do not matter.
TEST(WeightedSteps, CountedOnesDoNotDependOnTheMicrobatches) {
  const auto backend = open_backend({.name = "host", .threads = 2});
  auto model = test::tiny_llama();
  model.max_context = 8;
  auto setup = test::setup_of(completed(model), test::plain_sgd(), DType::f32);
  setup.exact_chunk = 4;
  const auto batch_of = [&](std::int64_t first, std::int64_t n) {
    auto b = test::random_batch(setup, n, first);
    for (std::size_t i = 0; i < b.ids_BT.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i) + first * 8;
      b.weight_BT.push_back(std::exp(static_cast<float>(at / 3 % 7) - 4));
    }
    return b;
  };
  std::vector<Outcome> all;
  for (const std::int64_t n : {1, 2, 6}) {
    std::vector<Batch> batches;
    for (std::int64_t first = 0; first < 6; first += n) batches.push_back(batch_of(first, n));
    all.push_back(outcome_of<float>(*backend, setup, batches));
    EXPECT_EQ(all.back().step.loss, all[0].step.loss) << n;
    EXPECT_EQ(all.back().step.grad_norm, all[0].step.grad_norm) << n;
    EXPECT_EQ(all.back().gradient, all[0].gradient) << n;
  }
}

TEST(WeightedSteps, PairsHaveNone) {
  auto setup = test::setup_of(test::tiny_gpt2(), test::plain_sgd(), DType::f64);
  setup.attention = AttentionSpan::document;
  setup.objective = PreferenceTraining{PairLoss{Simpo{}}, Reference::none};
  auto batch = test::random_batch(setup, 1);
  batch.start_BT = {0, 0, 0, 3, 3, 3, 3};
  batch.weight_BT.assign(batch.ids_BT.size(), 1);
  EXPECT_EQ(message_of<Error>([&] {
              outcome_of(setup, {&batch, 1});
            }),
            "pairs and labeled answers have no weights of documents");
}

TEST(WeightedLosses, SumsAreExact) {
  Batch b;
  for (int i = 0; i < 7; ++i) b.weight_BT.push_back(i < 3 ? most_weight : least_weight);
  b.targets_BT.assign(7, 1);
  b.targets_BT[6] = no_target;
  EXPECT_EQ(weight_of(weight_sum(b).quanta), 3 * 0x1p16 + 3 * 0x1p-20);
  EXPECT_EQ(weight_sum(b).largest, 0x1p16);
  b.weight_BT.assign(7, 0.1F);
  b.weight_BT[6] = 5;
  EXPECT_EQ(weight_of(weight_sum(b).quanta), 6 * static_cast<double>(0.1F));
  EXPECT_EQ(weight_sum(b).largest, static_cast<double>(0.1F));
}

TEST(WeightedLosses, RowsAreInRangesOfOneWeight) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Batch b;
    const auto n = 1 + philox4x32(seed, 0, 0)[0] % 20;
    for (std::uint64_t i = 0; i < n; ++i) {
      const auto r = philox4x32(seed, 1, i);
      b.targets_BT.push_back(r[0] % 3 == 0 ? no_target : 1);
      b.weight_BT.push_back(static_cast<float>(1 + r[1] % 3));
    }
    const auto w = weighted_rows(b, 10);
    ASSERT_EQ(w.rows.size(), w.weights.size());
    std::int64_t row = 0;
    for (std::size_t k = 0; k < w.rows.size(); ++k) {
      EXPECT_EQ(w.rows[k].rows.begin, row);
      EXPECT_GT(w.rows[k].rows.end, row);
      EXPECT_EQ(w.rows[k].sum, static_cast<std::int64_t>(k));
      EXPECT_EQ(w.rows[k].scale, static_cast<double>(w.weights[k]) / 10);
      for (; row < w.rows[k].rows.end; ++row) {
        const auto i = static_cast<std::size_t>(row);
        if (b.targets_BT[i] == no_target) continue;
        EXPECT_EQ(b.weight_BT[i], w.weights[k]);
      }
      EXPECT_TRUE(k == 0 || w.weights[k] != w.weights[k - 1]);
    }
    EXPECT_EQ(row, std::ssize(b.targets_BT));
  }
}

}  // namespace
}  // namespace trireme
