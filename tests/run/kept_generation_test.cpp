// Generation that keeps keys and values, against whole contexts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/host/host.hpp"
#include "kernels/ref/ref.hpp"
#include "lib/run/generation.hpp"
#include "tests/support/contract.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

std::vector<ModelConfig> models() {
  std::vector<ModelConfig> all{test::tiny_gpt2(), test::tiny_llama()};
  for (auto& c : all) c.max_context = 21;
  // A window's rows come again.
  auto windows = test::tiny_llama();
  windows.max_context = 90;
  windows.window = 5;
  windows.window_layers = {1};
  windows.attention_sinks = true;
  all.push_back(windows);
  for (auto c : {test::tiny_olmo2(), test::tiny_gemma2(), test::tiny_gemma3(), test::tiny_granite(),
                 test::tiny_glm4(), test::tiny_gpt_oss()}) {
    c.max_context = 90;
    all.push_back(c);
  }
  return all;
}

std::unique_ptr<Trainer> make(Backend& b, const ModelConfig& c, DType compute) {
  auto setup = test::setup_of(c, test::adamw(), compute);
  setup.trainable = false;
  auto t = std::make_unique<Trainer>(b, Axes{}, setup);
  t->store().initialize(3, 1);
  return t;
}

// Weights ten times as large as fresh ones, so that tokens differ from each other.
template <class T>
void enlarge(Trainer& t) {
  auto& store = t.store();
  for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
    const auto p = ParamId::at(i);
    if (store.spec().params[i].init_std == 0) continue;
    auto values = test::read<T>(store, p);
    for (auto& x : values) x *= 10;
    test::write<T>(store, p, std::span<const T>(values));
  }
}

std::vector<Request> requests(double temperature) {
  std::vector<Request> all;
  for (std::int32_t i = 0; i < 5; ++i) {
    Request r{{}, 6 + 5 * i, {.temperature = temperature, .seed = 11U + static_cast<unsigned>(i)}};
    for (std::int32_t t = 0; t <= 2 * i; ++t) r.ids.push_back((7 * t + 3 * i) % 19);
    all.push_back(std::move(r));
  }
  return all;
}

std::vector<std::vector<std::int32_t>> tokens(Trainer& t, std::span<const Request> r,
                                              std::int64_t batch, bool cache) {
  std::vector<std::vector<std::int32_t>> ids;
  for (auto& c : generate(t, r, {.vocab = 19, .batch = batch, .cache = cache}))
    ids.push_back(std::move(c.ids));
  return ids;
}

// The logits of each next position of a text, with the keys and values of those before it kept.
// `near`(full, kept) compares.
template <class Near>
void compare_logits(Trainer& t, const Near& near) {
  std::vector<std::int32_t> ids{3, 1, 4, 1, 5};
  const auto context = t.model().spec().config.max_context;
  KeyValues kept{.positions = context, .of_block = {}};
  near(t.logits(ids), t.logits(ids, &kept));
  while (std::ssize(ids) < context) {
    ids.push_back(static_cast<std::int32_t>((ids.size() * 5) % 19));
    const Trainer::Next next{ids.back(), static_cast<std::int64_t>(ids.size()) - 1, &kept};
    near(t.logits(ids), t.extend({&next, 1})[0]);
  }
}

TEST(KeptGeneration, LogitsOfTheReferenceAreThoseOfWholeContexts) {
  for (const auto& c : models()) {
    Ref ref;
    const Workspace scratch(ref);
    const auto t = make(ref, c, DType::f64);
    enlarge<double>(*t);
    compare_logits(*t, [](const auto& full, const auto& kept) { EXPECT_EQ(full, kept); });
  }
}

// Both ways are off by the sums on the way of a row: those of all blocks, one after the other. A
// logit's terms add to at most the product of the lengths of a normed row and a row of the head.
TEST(KeptGeneration, LogitsOfTheHostAreWithinRounding) {
  for (const auto& c : models()) {
    Host host(2);
    const Workspace scratch(host);
    const auto t = make(host, c, DType::f32);
    enlarge<float>(*t);
    const auto& spec = t->model().spec();
    double longest = 0;
    const auto head = test::read<float>(t->store(), spec.head);
    for (std::size_t v = 0; v < head.size(); v += static_cast<std::size_t>(c.width)) {
      double sum = 0;
      for (std::int64_t d = 0; d < c.width; ++d)
        sum += std::pow(head[v + static_cast<std::size_t>(d)], 2);
      longest = std::max(longest, std::sqrt(sum));
    }
    const auto terms = c.layers * (3 * c.width + 2 * c.ffn_width + 2 * c.max_context) + c.width;
    const double bound =
        2 * sum_error(DType::f32, terms, longest * std::sqrt(static_cast<double>(c.width)));
    compare_logits(*t, [&](const auto& full, const auto& kept) {
      ASSERT_EQ(full.size(), kept.size());
      for (std::size_t i = 0; i < full.size(); ++i) EXPECT_NEAR(full[i], kept[i], bound);
    });
  }
}

// Also past the end of the context, where each token reads the last 21.
TEST(KeptGeneration, TokensAreThoseOfWholeContexts) {
  for (const auto& c : models())
    for (const double temperature : {0.0, 1.0}) {
      Ref ref;
      const Workspace scratch(ref);
      const auto t = make(ref, c, DType::f64);
      enlarge<double>(*t);
      const auto r = requests(temperature);
      EXPECT_EQ(tokens(*t, r, 3, true), tokens(*t, r, 3, false));
    }
}

TEST(KeptGeneration, ASequenceGetsTheTokensThatItGetsAlone) {
  for (const auto& c : models()) {
    Host host(2);
    const Workspace scratch(host);
    const auto t = make(host, c, DType::f32);
    enlarge<float>(*t);
    const auto r = requests(1.0);
    const auto together = tokens(*t, r, 4, true);
    for (std::size_t i = 0; i < r.size(); ++i)
      EXPECT_EQ(tokens(*t, std::span(r).subspan(i, 1), 1, true)[0], together[i]) << i;
    EXPECT_EQ(tokens(*t, r, 2, true), together);
  }
}

TEST(KeptGeneration, SaysWhySequencesEnd) {
  Ref ref;
  const Workspace scratch(ref);
  const auto t = make(ref, test::tiny_gpt2(), DType::f64);
  const std::vector<Request> r(2, Request{{1}, 5, {.temperature = 0}});
  const auto free = generate(*t, r, {.vocab = 19});
  EXPECT_EQ(free[0].ended, FinishReason::length);
  EXPECT_EQ(free[0].ids.size(), 5U);
  const auto eos = generate(*t, r, {.vocab = 19, .ends = {18, free[0].ids[0]}});
  EXPECT_EQ(eos[1].ended, FinishReason::end_of_text);
  EXPECT_TRUE(eos[1].ids.empty());
  GenerationSettings s{.vocab = 19};
  s.stops = [](std::size_t i, auto fresh) { return i == 1 && fresh.size() == 2; };
  const auto stopped = generate(*t, r, s);
  EXPECT_EQ(stopped[0].ended, FinishReason::length);
  EXPECT_EQ(stopped[1].ended, FinishReason::stop);
  EXPECT_EQ(stopped[1].ids.size(), 2U);
}

}  // namespace
}  // namespace trireme
