#pragma once
// Small models of each architecture, checkpoints of them with weights without a pattern, and how to
// compare two checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/array_names.hpp"
#include "lib/base/rng.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/model/spec.hpp"
#include "tests/support/scratch.hpp"

namespace trireme::test {

struct NamedModel {
  std::string name;
  ModelConfig config;
};

inline ModelConfig small_gpt2() {
  ModelConfig c;
  c.layers = 2;
  c.width = 24;
  c.heads = 3;
  c.vocab = 257;
  c.max_context = 17;
  return completed(c);
}

inline ModelConfig small_llama() {
  auto c = small_gpt2();
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 6;
  c.ffn_width = 20;
  c.norm = NormKind::rms;
  c.bias = false;
  c.activation = ActivationKind::swiglu;
  c.positions = Positions::rotary;
  c.tied = false;
  return c;
}

// Every block a mixture whose experts are as wide as one MLP: Mixtral.
inline ModelConfig small_mixtral() {
  auto c = small_llama();
  c.experts = 5;
  c.experts_per_token = 2;
  return completed(c);
}

// With experts of a width of their own, and a block without.
inline ModelConfig small_mixture() {
  auto c = small_mixtral();
  c.layers = 3;
  c.expert_width = 12;
  c.norm_topk = false;
  c.dense_layers = {1};
  return c;
}

inline ModelConfig small_olmoe() {
  auto c = small_mixtral();
  c.qk_norm = true;
  c.qk_norm_over = QkNormOver::width;
  c.norm_topk = false;
  return c;
}

inline ModelConfig small_qwen2_moe() {
  auto c = small_mixture();
  c.qkv_bias = c.shared_expert_gate = true;
  c.shared_expert_width = 14;
  return c;
}

inline ModelConfig small_qwen3_moe() {
  auto c = small_mixture();
  c.qk_norm = true;
  c.head_dim = 8;
  return c;
}

inline ModelConfig small_olmo2() {
  auto c = small_llama();
  c.norm_place = NormPlace::after;
  c.qk_norm = true;
  c.qk_norm_over = QkNormOver::width;
  return c;
}

inline ModelConfig small_gemma2() {
  auto c = small_llama();
  c.norm_place = NormPlace::both;
  c.activation = ActivationKind::geglu;
  c.tied = true;
  c.scale_embedding = true;
  c.attention_scale = 1 / std::sqrt(7.0);
  c.attention_softcap = 50;
  c.logit_softcap = 30;
  c.window = 5;
  c.window_layers = {0};
  return c;
}

inline ModelConfig small_gemma3() {
  auto c = small_gemma2();
  c.qk_norm = true;
  c.attention_scale = c.attention_softcap = c.logit_softcap = 0;
  c.window_rope_theta = 1000;
  c.rope_theta = 50000;
  return c;
}

inline ModelConfig small_olmo3() {
  auto c = small_olmo2();
  c.window = 5;
  c.window_layers = {0};
  c.rope_theta = c.window_rope_theta = 500000;
  return c;
}

inline ModelConfig small_granite() {
  auto c = small_llama();
  c.embedding_scale = 12;
  c.residual_scale = 0.22;
  c.attention_scale = 0.015625;
  c.logit_scale = 1 / 6.0;
  return c;
}

inline ModelConfig small_glm4() {
  auto c = small_llama();
  c.norm_place = NormPlace::both;
  c.qkv_bias = true;
  c.rotary_dim = 4;
  return c;
}

inline ModelConfig small_gpt_oss() {
  auto c = small_mixtral();
  c.bias = true;
  c.window = 5;
  c.window_layers = {0};
  c.attention_sinks = true;
  c.activation = ActivationKind::swiglu_clamped;
  c.expert_bias = true;
  c.rope_scaling = RopeScaling::yarn;
  c.rope_factor = 8;
  c.rope_original_context = 9;
  c.rope_truncate = false;
  return c;
}

// Every architecture, and every setting that changes names, shapes or config.json.
inline std::vector<NamedModel> small_models() {
  std::vector<NamedModel> models = {{"gpt2", small_gpt2()}, {"llama", small_llama()}};
  const auto add = [&](const char* name, ModelConfig c, auto change) {
    change(c);
    models.push_back({name, c});
  };
  add("gpt2_untied_narrow", small_gpt2(), [](auto& c) { c.tied = false, c.ffn_width = 40; });
  add("llama_tied", small_llama(), [](auto& c) { c.tied = true; });
  add("llama_bias", small_llama(), [](auto& c) { c.bias = true; });
  add("llama_heads", small_llama(), [](auto& c) { c.kv_heads = 4, c.head_dim = 10; });
  add("llama_linear", small_llama(), [](auto& c) {
    c.rope_scaling = RopeScaling::linear;
    c.rope_factor = 2.5;
  });
  add("llama3", small_llama(), [](auto& c) {
    c.rope_theta = 500000;
    c.rope_scaling = RopeScaling::llama3;
    c.rope_factor = 8;
    c.rope_low_freq_factor = 1.5;
    c.rope_high_freq_factor = 3;
    c.rope_original_context = 9;
  });
  add("qwen2", small_llama(), [](auto& c) { c.qkv_bias = true, c.norm_eps = 1e-6; });
  add("qwen3", small_llama(), [](auto& c) { c.qk_norm = true, c.tied = true, c.head_dim = 8; });
  add("mistral", small_llama(), [](auto& c) { c.window = 5, c.head_dim = 8; });
  add("mistral_heads", small_llama(), [](auto& c) { c.heads = c.kv_heads = 5, c.head_dim = 10; });
  add("qwen2_window", small_llama(), [](auto& c) {
    c.qkv_bias = true;
    c.window = 5;
    c.window_layers = {0};
  });
  add("qwen3_window", small_llama(), [](auto& c) { c.qk_norm = true, c.window = 5; });
  add("olmo2", small_olmo2(), [](auto& c) { c.tied = true, c.head_dim = 8; });
  add("gemma2", small_gemma2(), [](auto& c) { c.head_dim = 8; });
  add("gemma2_plain", small_gemma2(), [](auto& c) {
    c.tied = false;
    c.attention_softcap = c.logit_softcap = c.attention_scale = 0;
    c.window_layers.clear();
  });
  add("gemma3", small_gemma3(), [](auto& c) {
    c.rope_scaling = RopeScaling::linear;
    c.rope_factor = 8;
  });
  add("mixtral", small_mixtral(), [](auto& c) { c.rope_theta = 500; });
  add("mixtral_window", small_mixtral(), [](auto& c) { c.window = 4; });
  add("qwen3_moe_window", small_qwen3_moe(), [](auto& c) { c.window = 4; });
  add("olmoe", small_olmoe(), [](auto& c) { c.tied = true; });
  add("qwen2_moe", small_qwen2_moe(), [](auto& c) { c.tied = true; });
  add("qwen2_moe_without_biases", small_qwen2_moe(), [](auto& c) { c.qkv_bias = false; });
  add("qwen3_moe", small_qwen3_moe(), [](auto& c) { c.norm_topk = true; });
  add("qwen3_moe_alike", small_qwen3_moe(), [](auto& c) { c.dense_layers.clear(); });
  add("smollm3", small_llama(), [](auto& c) { c.nope_layers = {1}; });
  add("smollm3_window", small_llama(), [](auto& c) {
    c.nope_layers = {0};
    c.tied = c.bias = true;
    c.window = 5;
    c.window_layers = {1};
  });
  add("olmo3", small_olmo3(), [](auto& c) {
    c.rope_scaling = RopeScaling::linear;
    c.rope_factor = 8;
  });
  add("olmo3_bases", small_olmo3(), [](auto& c) { c.window_rope_theta = 700; });
  add("olmo3_default_base", small_olmo3(), [](auto& c) { c.rope_theta = 1e6; });
  add("granite", small_granite(), [](auto& c) { c.bias = true; });
  add("glm4", small_glm4(), [](auto& c) { c.rope_theta = 700; });
  add("glm4_whole_heads", small_glm4(), [](auto& c) { c.rotary_dim = 0, c.qkv_bias = false; });
  add("gpt_oss", small_gpt_oss(), [](auto& c) { c.rope_theta = 700; });
  add("gpt_oss_plain", small_gpt_oss(), [](auto& c) {
    c.rope_scaling = RopeScaling::none;
    c.rope_factor = 1;
    c.rope_truncate = true;
    c.rope_original_context = ModelConfig().rope_original_context;
    c.bias = false;
    c.tied = true;
    c.window = 0;
    c.window_layers.clear();
    c.expert_width = 10;
  });
  return models;
}

// Where the ranks of a stage and stages cut a model: `pipe` stages of parameters in their order,
// each parameter in `zero` slices.
struct Cut {
  int pipe = 1, zero = 1;
};

inline Deck deck_of(const ModelConfig& model) {
  Deck deck;
  deck.model = model;
  deck.data.context = model.max_context;
  deck.data.path = {"/none"};
  deck.train.steps = 1;
  return deck;
}

inline std::vector<std::byte> weights_of(const std::string& name, std::int64_t begin,
                                         std::int64_t count, DType dtype) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * bytes_of(dtype));
  const auto key = hash64(std::uint64_t{7}, name);
  for (std::int64_t i = 0; i < count; ++i) {
    // Of all magnitudes and signs, finite.
    const auto x = mix64(key + static_cast<std::uint64_t>(begin + i));
    double value = (static_cast<double>(x >> 11) * 0x1p-53 - 0.5) * ((x & 1) ? 1e-3 : 3.0);
    if (name.ends_with("norm.weight"))
      value = std::round(value * 1024) / 1024 + 0.0;  // exact less one
    const auto narrow = static_cast<float>(value);
    auto* const to = bytes.data() + static_cast<std::size_t>(i) * bytes_of(dtype);
    if (dtype == DType::f64)
      std::memcpy(to, &value, 8);
    else
      std::memcpy(to, &narrow, 4);
  }
  return bytes;
}

// The checkpoint's directory.
inline std::filesystem::path save_model(const std::filesystem::path& checkpoints,
                                        const ModelConfig& model, Cut cut = {},
                                        DType dtype = DType::f32, std::string tokenizer_kind = "",
                                        std::string tokenizer = "", std::int64_t context = 0) {
  std::filesystem::create_directories(checkpoints);
  const auto spec = make_spec(model);
  CheckpointMeta meta;
  meta.step = 3;
  auto deck = deck_of(model);
  if (context > 0) deck.data.context = context;
  if (dtype == DType::f64) {
    deck.precision.compute = deck.precision.reduce = DType::f64;
    deck.run.backend = "ref";
  }
  meta.deck = dump_deck(deck);
  meta.run = "f00d";
  meta.vocab = model.vocab;
  meta.tokenizer_kind = std::move(tokenizer_kind);
  meta.tokenizer = std::move(tokenizer);
  for (const auto& p : spec.params) meta.updates[p.name] = 3;
  const auto partial = begin_save(checkpoints, meta.step);
  std::vector<FileRecord> files;
  const auto n = static_cast<int>(spec.params.size());
  for (int stage = 0; stage < cut.pipe; ++stage)
    for (int place = 0; place < cut.zero; ++place) {
      std::vector<ParamSlice> slices;
      for (int i = n * stage / cut.pipe; i < n * (stage + 1) / cut.pipe; ++i) {
        const auto& p = spec.params[static_cast<std::size_t>(i)];
        const auto count = p.shape.count();
        const auto begin = count * place / cut.zero, end = count * (place + 1) / cut.zero;
        if (begin < end)
          slices.push_back(
              {p.name, std::string(weights_array), p.shape, begin, end - begin, dtype});
      }
      files.push_back(write_shard(partial, static_cast<int>(files.size()), meta, slices,
                                  [](const ParamSlice& s, std::int64_t first, auto to) {
                                    const auto bytes = weights_of(
                                        s.name, s.begin + first,
                                        static_cast<std::int64_t>(to.size() / bytes_of(s.dtype)),
                                        s.dtype);
                                    std::memcpy(to.data(), bytes.data(), bytes.size());
                                  }));
    }
  return publish(checkpoints, meta, std::move(files));
}

// Every weight is the one that save_model wrote, bit for bit, and there are no others.
inline void expect_weights(const std::filesystem::path& checkpoint, const ModelConfig& model,
                           DType dtype = DType::f32) {
  CheckpointReader reader(checkpoint);
  const auto spec = make_spec(model);
  EXPECT_EQ(reader.params().size(), spec.params.size());
  EXPECT_TRUE(reader.verify().empty());
  for (const auto& p : spec.params) {
    std::vector<std::byte> found(static_cast<std::size_t>(p.shape.count()) * bytes_of(dtype));
    reader.read(p.name, weights_array, 0, p.shape.count(), found);
    EXPECT_TRUE(found == weights_of(p.name, 0, p.shape.count(), dtype)) << p.name;
  }
}

}  // namespace trireme::test
