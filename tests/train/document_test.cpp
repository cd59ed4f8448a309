// data.attention = "document": a whole model's loss and gradients, and what its routers do, are
// those of its documents, each trained on as a sample of its own by causal attention, which knows
// nothing of documents.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

#include "kernels/ref/ref.hpp"
#include "lib/data/deck_data.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

constexpr std::int64_t T = 12;

ModelConfig with_context(ModelConfig c) {
  c.max_context = T;
  return completed(c);
}

// Begins of documents of samples: at borders, of a token each, in a row, none but the first.
const std::vector<std::vector<std::int32_t>> begins_of_documents{
    {0}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {0, 1, 11}, {0, 5, 6, 7}, {0, 4, 8},
};

Batch with_documents(const ModelConfig& c) {
  auto b = test::random_batch(c, std::ssize(begins_of_documents));
  for (const auto& begins : begins_of_documents)
    for (std::int32_t t = 0; t < T; ++t)
      b.start_BT.push_back(*std::prev(std::ranges::upper_bound(begins, t)));
  return b;
}

// Each document at the begin of a sample, behind it padding.
std::vector<Batch> documents_alone(const Batch& b) {
  std::vector<Batch> all;
  for (std::size_t s = 0; s < begins_of_documents.size(); ++s) {
    auto begins = begins_of_documents[s];
    begins.push_back(T);
    for (std::size_t d = 0; d + 1 < begins.size(); ++d) {
      Batch one{std::vector<std::int32_t>(T, 0),
                std::vector<std::int32_t>(T, no_target),
                {static_cast<std::int64_t>(all.size())},
                0};
      for (auto t = begins[d]; t < begins[d + 1]; ++t) {
        const auto from = s * T + static_cast<std::size_t>(t);
        const auto to = static_cast<std::size_t>(t - begins[d]);
        one.ids_BT[to] = b.ids_BT[from];
        one.targets_BT[to] = b.targets_BT[from];
        one.valid += b.targets_BT[from] != no_target;
      }
      one.tokens_B = {begins[d + 1] - begins[d]};
      all.push_back(std::move(one));
    }
  }
  return all;
}

struct Outcome {
  double loss, evaluated;
  Routing routing;
  std::vector<std::vector<double>> gradients;
};

struct Case {
  const char* name;
  ModelConfig model;
  Balance balance = Balance::none;
  Recompute recompute = Recompute::none;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

// SGD with rate 1 subtracts the gradient.
Outcome outcome_of(const Case& c, AttentionSpan attention, std::span<const Batch> batches) {
  Ref backend;
  const Workspace scratch(backend);
  auto setup = test::setup_of(c.model, test::plain_sgd(), DType::f64);
  setup.attention = attention;
  setup.recompute = c.recompute;
  setup.balance = c.balance;
  setup.balance_weight = setup.router_z = setup.balance_rate = 0.1;
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(3, 1);
  Outcome o;
  const auto evaluated = trainer.evaluate(batches);
  o.evaluated = evaluated.sum / static_cast<double>(evaluated.valid);
  const auto before = test::read_all<double>(trainer.store());
  const auto step = trainer.step(0, 1, batches);
  o.loss = step.loss;
  o.routing = step.routing;
  o.gradients = test::read_all<double>(trainer.store());
  for (std::size_t p = 0; p < before.size(); ++p)
    for (std::size_t e = 0; e < before[p].size(); ++e)
      o.gradients[p][e] = before[p][e] - o.gradients[p][e];
  if (c.balance == Balance::sample)  // nothing moves them
    for (const auto& block : trainer.store().spec().blocks)
      if (block.router_bias != ParamId{}) o.gradients[block.router_bias.index()].clear();
  return o;
}

class Documents : public testing::TestWithParam<Case> {};

// A number passes 3 layers of 4 products forward and back, sums of up to 80 terms, and a sum over
// 60 tokens; n roundings add up to 6 sqrt(n) of them at most. Weights of up to 1 hide the digits of
// a gradient behind 2^-53.
void expect_same(const Outcome& got, const Outcome& want) {
  const double relative = 6 * 0x1p-53 * (std::sqrt(3 * 2 * 4 * 80) + std::sqrt(60));
  EXPECT_NEAR(got.loss, want.loss, relative * want.loss);
  EXPECT_NEAR(got.evaluated, want.evaluated, relative * want.evaluated);
  EXPECT_EQ(got.routing.loads, want.routing.loads);
  EXPECT_NEAR(got.routing.balance, want.routing.balance, relative * want.routing.balance);
  EXPECT_NEAR(got.routing.z, want.routing.z, relative * want.routing.z);
  for (std::size_t p = 0; p < want.gradients.size(); ++p) {
    double most = 0;
    for (const double g : want.gradients[p]) most = std::max(most, std::fabs(g));
    EXPECT_TRUE(most > 0 || want.gradients[p].empty()) << p;
    for (std::size_t e = 0; e < want.gradients[p].size(); ++e)
      EXPECT_NEAR(got.gradients[p][e], want.gradients[p][e], relative * most + 2 * 0x1p-53)
          << p << "[" << e << "]";
  }
}

TEST_P(Documents, HaveTheLossAndGradientsOfSamplesOfTheirOwn) {
  const auto& c = GetParam();
  const auto together = with_documents(c.model);
  const auto alone = documents_alone(together);
  expect_same(outcome_of(c, AttentionSpan::document, {&together, 1}),
              outcome_of(c, AttentionSpan::causal, alone));
}

// data.packing = "documents": samples that are made of a file's documents against these alone, of
// which some targets are masked.
TEST_P(Documents, OfAFileThatIsPackedHaveThatOfSamplesOfTheirOwn) {
  const auto& c = GetParam();
  const ScratchFolder scratch;
  const auto separator = static_cast<std::int32_t>(c.model.vocab - 1);
  std::vector<std::int32_t> ids;
  TokenFileOptions options{.vocab = c.model.vocab, .separator = separator};
  std::vector<Batch> alone;
  for (const std::int64_t n : {7, 3, 1, 12, 9, 2, 2, 5, 4}) {
    Batch one{std::vector<std::int32_t>(T, 0),
              std::vector<std::int32_t>(T, no_target),
              {static_cast<std::int64_t>(alone.size())},
              0};
    for (std::int64_t t = 0; t <= n; ++t) {
      const auto draw = philox4x32(5, static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(t));
      const auto id = t == n
                          ? separator
                          : static_cast<std::int32_t>(draw[0] % static_cast<unsigned>(separator));
      const bool counts = draw[1] % 3 != 0 && t > 0;
      ids.push_back(id);
      options.targets.push_back(counts);
      const auto at = static_cast<std::size_t>(t);
      if (t < n) one.ids_BT[at] = id;
      if (counts) one.targets_BT[at - 1] = id;
      one.valid += counts;
    }
    one.tokens_B = {n};
    alone.push_back(std::move(one));
  }
  DataConfig config;
  config.path = {write_token_file(scratch / "a", ids, options)};
  config.packing = Packing::documents;
  config.attention = AttentionSpan::document;
  const auto data = training_data(config, T, c.model.vocab, 1);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(data.samples_per_epoch()));
  std::iota(samples.begin(), samples.end(), 0);
  EXPECT_LT(samples.size(), 6U);
  const auto packed = read_batch(data, samples);
  expect_same(outcome_of(c, AttentionSpan::document, {&packed, 1}),
              outcome_of(c, AttentionSpan::causal, alone));
}

// The comparison can fail: causal attention over the same samples comes to something else.
TEST_P(Documents, AreNoSampleThatIsSeenAsAWhole) {
  const auto& c = GetParam();
  auto whole = with_documents(c.model);
  const auto apart = outcome_of(c, AttentionSpan::document, {&whole, 1});
  whole.start_BT.clear();
  const auto causal = outcome_of(c, AttentionSpan::causal, {&whole, 1});
  EXPECT_GT(std::fabs(apart.loss - causal.loss), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Flavours, Documents,
    testing::Values(
        Case{"gpt2", with_context(test::tiny_gpt2())},
        Case{"llama", with_context(test::tiny_llama())},
        Case{"llama_recompute", with_context(test::tiny_llama()), Balance::none, Recompute::block},
        Case{"mixture", with_context(test::tiny_mixture()), Balance::sample},
        Case{"mixture_recompute", with_context(test::tiny_mixture()), Balance::sample,
             Recompute::block},
        Case{"sigmoid", with_context(test::tiny_sigmoid_mixture()), Balance::sample},
        Case{"sigmoid_bias", with_context(test::tiny_sigmoid_mixture()), Balance::bias}),
    [](const auto& info) { return std::string(info.param.name); });

// What is generated from is one document.
TEST(DocumentLogits, AreThoseOfCausalAttention) {
  const std::vector<std::int32_t> ids{3, 1, 4, 1, 5};
  std::vector<std::vector<double>> logits;
  for (const auto attention : {AttentionSpan::causal, AttentionSpan::document}) {
    Ref backend;
    const Workspace scratch(backend);
    auto setup = test::setup_of(with_context(test::tiny_llama()), test::plain_sgd(), DType::f64);
    setup.attention = attention;
    Trainer trainer(backend, {}, setup);
    trainer.store().initialize(3, 1);
    logits.push_back(trainer.logits(ids));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

}  // namespace
}  // namespace trireme
