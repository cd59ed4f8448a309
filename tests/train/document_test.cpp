// data.attention = "document": a whole model's loss and gradients are those of its documents, each
// trained on as a sample of its own by causal attention, which knows nothing of documents.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/ref/ref.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

constexpr std::int64_t T = 12;

ModelConfig with_context(ModelConfig c) {
  c.context = T;
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

// Each document at the begin of a sample, behind it nothing that counts.
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
      all.push_back(std::move(one));
    }
  }
  return all;
}

struct Outcome {
  double loss, evaluated;
  std::vector<std::vector<double>> gradients;
};

// SGD with rate 1 subtracts the gradient.
Outcome outcome_of(const ModelConfig& c, AttentionSpan attention, std::span<const Batch> batches) {
  Ref backend;
  const Workspace scratch(backend);
  auto setup = test::setup_of(c, test::plain_sgd(), DType::f64);
  setup.attention = attention;
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(3, 1);
  Outcome o;
  const auto evaluated = trainer.evaluate(batches);
  o.evaluated = evaluated.sum / static_cast<double>(evaluated.valid);
  const auto before = test::read_all<double>(trainer.store());
  o.loss = trainer.step(0, 1, batches).loss;
  o.gradients = test::read_all<double>(trainer.store());
  for (std::size_t p = 0; p < before.size(); ++p)
    for (std::size_t e = 0; e < before[p].size(); ++e)
      o.gradients[p][e] = before[p][e] - o.gradients[p][e];
  return o;
}

class Documents : public testing::TestWithParam<const char*> {
 protected:
  static ModelConfig model() {
    const std::string_view name = GetParam();
    auto c = with_context(name == "gpt2" ? test::tiny_gpt2() : test::tiny_llama());
    if (name == "llama_recompute") c.recompute = Recompute::block;
    return c;
  }
};

// A number passes 2 layers of 4 products forward and back, sums of up to 80 terms, and a sum over
// 60 tokens; n roundings add up to 6 sqrt(n) of them at most. Weights of up to 1 hide the digits of
// a gradient behind 2^-53.
void expect_same(const Outcome& got, const Outcome& want) {
  const double relative = 6 * 0x1p-53 * (std::sqrt(2 * 2 * 4 * 80) + std::sqrt(60));
  EXPECT_NEAR(got.loss, want.loss, relative * want.loss);
  EXPECT_NEAR(got.evaluated, want.evaluated, relative * want.evaluated);
  for (std::size_t p = 0; p < want.gradients.size(); ++p) {
    double most = 0;
    for (const double g : want.gradients[p]) most = std::max(most, std::fabs(g));
    EXPECT_GT(most, 0) << p;
    for (std::size_t e = 0; e < want.gradients[p].size(); ++e)
      EXPECT_NEAR(got.gradients[p][e], want.gradients[p][e], relative * most + 2 * 0x1p-53)
          << p << "[" << e << "]";
  }
}

TEST_P(Documents, HaveTheLossAndGradientsOfSamplesOfTheirOwn) {
  const auto c = model();
  const auto together = with_documents(c);
  const auto alone = documents_alone(together);
  expect_same(outcome_of(c, AttentionSpan::document, {&together, 1}),
              outcome_of(c, AttentionSpan::causal, alone));
}

// data.packing = "documents": samples that are made of a file's documents against these alone, of
// which some targets are masked.
TEST_P(Documents, OfAFileThatIsPackedHaveThatOfSamplesOfTheirOwn) {
  const auto c = model();
  const ScratchFolder scratch;
  const auto separator = static_cast<std::int32_t>(c.vocab - 1);
  std::vector<std::int32_t> ids;
  TokenFileOptions options{.vocab = c.vocab, .separator = separator};
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
    alone.push_back(std::move(one));
  }
  DataConfig config;
  config.path = {write_token_file(scratch / "a", ids, options)};
  config.packing = Packing::documents;
  config.attention = AttentionSpan::document;
  const auto data = training_data(config, T, c.vocab, 1);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(data.samples_per_epoch()));
  std::iota(samples.begin(), samples.end(), 0);
  EXPECT_LT(samples.size(), 6U);
  const auto packed = read_batch(data, samples);
  expect_same(outcome_of(c, AttentionSpan::document, {&packed, 1}),
              outcome_of(c, AttentionSpan::causal, alone));
}

// The comparison can fail: causal attention over the same samples comes to something else.
TEST_P(Documents, AreNoSampleThatIsSeenAsAWhole) {
  const auto c = model();
  auto whole = with_documents(c);
  const auto apart = outcome_of(c, AttentionSpan::document, {&whole, 1});
  whole.start_BT.clear();
  const auto causal = outcome_of(c, AttentionSpan::causal, {&whole, 1});
  EXPECT_GT(std::fabs(apart.loss - causal.loss), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Flavours, Documents, testing::Values("gpt2", "llama", "llama_recompute"),
                         [](const auto& info) { return std::string(info.param); });

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
