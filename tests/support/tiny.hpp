#pragma once
// Small models and batches for tests, with everything awkward about them: sizes that are no
// multiples of a vector, shared key/value heads, masked targets.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/array_names.hpp"
#include "lib/base/rng.hpp"
#include "lib/train/trainer.hpp"

namespace trireme::test {

inline ModelConfig tiny_gpt2() {
  ModelConfig c;
  c.layers = 2;
  c.width = 12;
  c.heads = 3;
  c.vocab = 19;
  c.max_context = 7;
  return completed(c);
}

inline ModelConfig tiny_llama() {
  ModelConfig c = tiny_gpt2();
  c.width = 24;
  c.heads = 6;
  c.kv_heads = 2;
  c.norm = NormKind::rms;
  c.bias = false;
  c.activation = ActivationKind::swiglu;
  c.positions = Positions::rotary;
  c.tied = false;
  c.ffn_width = 20;
  return completed(c);
}

// Qwen's and Llama 3's: norms of queries and keys, whose heads are wider than the model's share,
// biases of theirs, and frequencies of which one keeps its own, one is scaled in part, one whole.
inline ModelConfig tiny_qwen() {
  ModelConfig c = tiny_llama();
  c.head_dim = 6;
  c.tied = true;
  c.qkv_bias = true;
  c.qk_norm = true;
  c.rope_theta = 100;
  c.rope_scaling = RopeScaling::llama3;
  c.rope_factor = 8;
  c.rope_original_context = 64;
  return completed(c);
}

// OLMo 2's: norms behind, and of all queries and all keys.
inline ModelConfig tiny_olmo2() {
  ModelConfig c = tiny_llama();
  c.norm_place = NormPlace::after;
  c.qk_norm = true;
  c.qk_norm_over = QkNormOver::width;
  return completed(c);
}

// Gemma 2's: norms at both places, soft caps within reach, a scale of its own, a window in turns.
inline ModelConfig tiny_gemma2() {
  ModelConfig c = tiny_llama();
  c.norm_place = NormPlace::both;
  c.norm_eps = 0.01;
  c.activation = ActivationKind::geglu;
  c.tied = true;
  c.scale_embedding = true;
  c.attention_scale = 0.6;
  c.attention_softcap = 0.7;
  c.logit_softcap = 0.8;
  c.window = 3;
  c.window_layers = {0};
  return completed(c);
}

// Gemma 3's: no cap of scores, norms of queries and keys, two bases of frequencies.
inline ModelConfig tiny_gemma3() {
  ModelConfig c = tiny_gemma2();
  c.attention_softcap = c.logit_softcap = 0;
  c.qk_norm = true;
  c.rope_theta = 300;
  c.window_rope_theta = 20;
  c.rope_scaling = RopeScaling::linear;
  c.rope_factor = 2;
  return c;
}

// Granite's factors, and as in SmolLM3 a block that does not turn its queries and keys.
inline ModelConfig tiny_granite() {
  ModelConfig c = tiny_llama();
  c.tied = true;
  c.nope_layers = {1};
  c.embedding_scale = 3;
  c.attention_scale = 0.4;
  c.residual_scale = 0.3;
  c.logit_scale = 0.7;
  c.logit_softcap = 0.8;
  return c;
}

// GLM-4's: norms at both places, biases of queries, keys and values, and heads of which two pairs
// of three turn.
inline ModelConfig tiny_glm4() {
  ModelConfig c = tiny_llama();
  c.norm_place = NormPlace::both;
  c.norm_eps = 0.01;
  c.qkv_bias = true;
  c.head_dim = 6;
  c.rotary_dim = 4;
  c.rope_theta = 100;
  return c;
}

// The first block is dense, the others choose 2 of 5 experts beside a shared one.
inline ModelConfig tiny_mixture() {
  ModelConfig c = tiny_llama();
  c.layers = 3;
  c.experts = 5;
  c.experts_per_token = 2;
  c.expert_width = 9;
  c.shared_expert_width = 11;
  c.shared_expert_gate = true;
  c.dense_layers = {0};
  return completed(c);
}

// Scores that are sigmoids, and weights that do not add up to 1.
inline ModelConfig tiny_sigmoid_mixture() {
  ModelConfig c = tiny_mixture();
  c.router = RouterScores::sigmoid;
  c.norm_topk = false;
  c.shared_expert_gate = false;
  c.experts_per_token = 3;
  c.dense_layers = {};
  c.tied = true;
  return c;
}

// gpt-oss's: a sink for each head, a window in turns, YaRN, clamped gates, and biases of all
// products, those of routers and experts included.
inline ModelConfig tiny_gpt_oss() {
  ModelConfig c = tiny_llama();
  c.head_dim = 6;
  c.bias = true;
  c.window = 3;
  c.window_layers = {0};
  c.attention_sinks = true;
  c.activation = ActivationKind::swiglu_clamped;
  c.experts = 5;
  c.experts_per_token = 2;
  c.expert_width = 9;
  c.expert_bias = true;
  c.rope_theta = 100;
  c.rope_scaling = RopeScaling::yarn;
  c.rope_factor = 3;
  c.rope_original_context = 40;
  c.rope_beta_fast = 4;
  c.rope_beta_slow = 0.25;
  c.rope_truncate = false;
  return completed(c);
}

// `samples` samples from number `first` on; about a fifth of the targets masked, unevenly.
inline Batch random_batch(const ModelConfig& c, std::int64_t samples, std::int64_t first = 0,
                          std::uint64_t seed = 7) {
  Batch b;
  for (std::int64_t s = first; s < first + samples; ++s) {
    b.sample_B.push_back(s);
    for (std::int64_t t = 0; t < c.max_context; ++t) {
      const auto r = philox4x32(seed, static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(s));
      const auto vocab = static_cast<std::uint32_t>(c.vocab);
      b.ids_BT.push_back(static_cast<std::int32_t>(r[0] % vocab));
      const bool masked = r[2] % 10 < (s % 3 == 0 ? 4U : 1U);
      b.targets_BT.push_back(masked ? -1 : static_cast<std::int32_t>(r[1] % vocab));
      b.valid += !masked;
    }
  }
  return b;
}

// Where documents begin whose separators are the ids below `separators`, of which there are many.
inline std::vector<std::int32_t> starts_of(const Batch& b, std::int32_t separators) {
  const auto T = b.ids_BT.size() / b.sample_B.size();
  std::vector<std::int32_t> start(b.ids_BT.size(), 0);
  for (std::size_t i = 0; i < start.size(); ++i)
    if (const auto t = i % T; t > 0)
      start[i] = b.ids_BT[i - 1] < separators ? static_cast<std::int32_t>(t) : start[i - 1];
  return start;
}

// Of two samples of three the end is padding.
inline void pad(Batch& b) {
  const auto T = std::ssize(b.ids_BT) / std::ssize(b.sample_B);
  for (std::int64_t i = 0; i < std::ssize(b.sample_B); ++i) {
    const auto s = b.sample_B[static_cast<std::size_t>(i)] % 3;
    const auto tokens = s == 0 ? T : s == 1 ? T - T / 3 : T / 2;
    b.tokens_B.push_back(tokens);
    for (auto t = tokens; t < T; ++t) {
      const auto at = static_cast<std::size_t>(i * T + t);
      b.ids_BT[at] = 0;
      b.start_BT[at] = static_cast<std::int32_t>(t);
      b.valid -= b.targets_BT[at] != no_target;
      b.targets_BT[at] = no_target;
    }
  }
}

inline OptimizerConfig plain_sgd() {
  OptimizerConfig o;
  o.name = OptimizerKind::sgd;
  o.weight_decay = 0;
  o.clip = 0;
  return o;
}

inline OptimizerConfig adamw() {
  return {};
}

inline TrainerSetup setup_of(const ModelConfig& model, const OptimizerConfig& optimizer,
                             DType compute) {
  TrainerSetup s;
  s.model = model;
  s.optimizer = optimizer;
  s.compute = compute;
  s.seed = 5;
  return s;
}

inline TrainerSetup without_adapters(TrainerSetup s) {
  s.adapter = {};
  return s;
}

// With as many tokens as samples of the setup have.
inline Batch random_batch(const TrainerSetup& s, std::int64_t samples, std::int64_t first = 0) {
  auto model = s.model;
  model.max_context = context_of(s);
  return random_batch(model, samples, first);
}

// All of one parameter's state.
template <class T>
std::vector<T> read(Store& store, ParamId p, std::string_view what = weights_array) {
  std::vector<T> values(static_cast<std::size_t>(store.spec().params[p.index()].shape.count()));
  store.read(p, what, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

template <class T>
void write(Store& store, ParamId p, std::span<const T> values) {
  store.write(p, weights_array, 0, std::as_bytes(values));
  store.refresh();
}

template <class T>
std::vector<std::vector<T>> read_all(Store& store) {
  std::vector<std::vector<T>> all;
  for (std::size_t i = 0; i < store.spec().params.size(); ++i)
    all.push_back(read<T>(store, ParamId::at(i)));
  return all;
}

}  // namespace trireme::test
