#pragma once
// Samples of two documents that belong together, the same documents in samples of their own, and a
// step on them, for tests of objectives of pairs and of labeled answers.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>
#include <span>
#include <vector>

#include "kernels/ref/ref.hpp"
#include "tests/support/named_weights.hpp"

namespace trireme::test::preferences {

inline constexpr std::int64_t T = 14;

// Begins of documents, two of them a pair, and where padding begins.
struct Sample {
  std::vector<std::int32_t> begins;
  std::int64_t end;
};
inline const std::vector<Sample> samples{
    {{0, 5}, 14}, {{0, 1, 4, 9}, 12}, {{0, 6}, 9}, {{0, 3, 7, 8}, 14}};

inline Batch batch_of(const TrainerSetup& setup, std::size_t first, std::size_t count) {
  auto b = random_batch(setup, static_cast<std::int64_t>(count), static_cast<std::int64_t>(first));
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
inline std::vector<Batch> documents_alone(const Batch& b) {
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

// The objective is of tokens.
inline TrainerSetup whole_model(ModelConfig c) {
  c.max_context = T;
  auto s = setup_of(c, plain_sgd(), DType::f64);
  s.attention = AttentionSpan::document;
  return s;
}

inline TrainerSetup with_adapters(const ModelConfig& c) {
  auto s = whole_model(c);
  s.adapter.rank = 3;
  return s;
}

inline TrainerSetup with_objective(TrainerSetup s, const PreferenceTraining& objective) {
  s.objective = objective;
  return s;
}

// As initialized, with b of this size, which begins at zero.
inline Weights some_weights(const TrainerSetup& setup, double size) {
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

inline std::vector<double> losses_alone(TrainerSetup setup, const Weights& weights,
                                        std::span<const Batch> documents) {
  setup.attention = AttentionSpan::causal;
  setup.objective = TokenTraining{};
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  write_all(trainer.store(), weights);
  return trainer.losses(documents);
}

// At 0, of fourth order: of this model the third derivative, with beta, hides digits otherwise.
template <class F>
double slope_of(const F& f) {
  const double h = 1e-4;
  return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
}

struct Outcome {
  StepResult step;
  PreferenceSums evaluated;
  Weights gradients;  // SGD with rate 1 subtracts them
};
inline Outcome outcome_of(const TrainerSetup& setup, const Weights& weights,
                          std::span<const Batch> batches) {
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  write_all(trainer.store(), weights);
  Outcome o;
  o.evaluated = trainer.evaluate_pairs(trainer.score_pairs(batches));
  o.step = trainer.step(0, 1, batches);
  o.gradients = weights_of(trainer.store());
  for (auto& [name, values] : o.gradients)
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = weights.at(name)[i] - values[i];
  return o;
}

inline std::int64_t targets_of(const Batch& document) {
  return std::ranges::count_if(document.targets_BT, [](auto t) { return t != no_target; });
}

// Minus the log-probabilities of a batch's documents, each alone.
inline Batch with_reference(const TrainerSetup& setup, const Weights& weights, Batch b) {
  b.reference_D = losses_alone(setup, weights, documents_alone(b));
  return b;
}

struct PreferenceModel {
  const char* name;
  TrainerSetup setup;
};
inline void PrintTo(const PreferenceModel& m, std::ostream* out) {
  *out << m.name;
}
inline std::vector<PreferenceModel> preference_models() {
  std::vector<PreferenceModel> all = {{"gpt2", with_adapters(tiny_gpt2())},
                                      {"llama", with_adapters(tiny_llama())},
                                      {"qwen", with_adapters(tiny_qwen())},
                                      {"mixture", with_adapters(tiny_mixture())}};
  all.push_back({"llama_recompute", all[1].setup});
  all.back().setup.recompute = Recompute::block;
  return all;
}

}  // namespace trireme::test::preferences
