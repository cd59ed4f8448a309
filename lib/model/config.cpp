#include "lib/model/config.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

ModelConfig with_shape(std::int64_t layers, std::int64_t width, std::int64_t heads,
                       std::int64_t kv_heads, std::int64_t ffn_width, std::int64_t vocab,
                       std::int64_t max_context) {
  ModelConfig c;
  c.layers = layers;
  c.width = width;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.ffn_width = ffn_width;
  c.vocab = vocab;
  c.max_context = max_context;
  return c;
}

ModelConfig llama(ModelConfig c) {
  c.norm = NormKind::rms;
  c.bias = false;
  c.activation = ActivationKind::swiglu;
  c.positions = Positions::rotary;
  c.tied = false;
  return c;
}

ModelConfig llama_3(ModelConfig c) {
  c = llama(std::move(c));
  c.rope_theta = 500000;
  return c;
}

ModelConfig llama_3_2(ModelConfig c) {
  c = llama_3(std::move(c));
  c.tied = true;
  c.rope_scaling = RopeScaling::llama3;
  c.rope_factor = 32;
  return c;
}

ModelConfig mistral(ModelConfig c) {
  c = llama(std::move(c));
  c.rope_theta = 1e6;
  return c;
}

ModelConfig smollm2(ModelConfig c) {
  c = llama(std::move(c));
  c.tied = true;
  c.rope_theta = 100000;
  return c;
}

// Returns every n-th block.
std::vector<std::int64_t> each(std::int64_t n, std::int64_t layers) {
  std::vector<std::int64_t> some;
  for (std::int64_t l = n - 1; l < layers; l += n) some.push_back(l);
  return some;
}

// Returns the blocks that use a window: all except every n-th block.
std::vector<std::int64_t> all_but_each(std::int64_t n, std::int64_t layers) {
  std::vector<std::int64_t> some;
  for (std::int64_t l = 0; l < layers; ++l)
    if ((l + 1) % n != 0) some.push_back(l);
  return some;
}

ModelConfig smollm3(ModelConfig c) {
  c = llama(std::move(c));
  c.tied = true;
  c.norm_eps = 1e-6;
  c.rope_theta = 5e6;
  c.nope_layers = each(4, c.layers);
  return c;
}

ModelConfig granite(ModelConfig c) {
  c = llama(std::move(c));
  c.tied = true;
  c.rope_theta = 1e7;
  c.embedding_scale = 12;
  c.attention_scale = 0.015625;
  c.residual_scale = 0.22;
  c.logit_scale = 0.125;
  return c;
}

ModelConfig glm_4(ModelConfig c) {
  c = llama(std::move(c));
  c.norm_place = NormPlace::both;
  c.qkv_bias = true;
  c.rotary_dim = 64;
  return c;
}

ModelConfig olmo_2(ModelConfig c) {
  c = llama_3(std::move(c));
  c.norm_place = NormPlace::after;
  c.norm_eps = 1e-6;
  c.qk_norm = true;
  c.qk_norm_over = QkNormOver::width;
  return c;
}

ModelConfig olmo_3(ModelConfig c) {
  c = olmo_2(std::move(c));
  c.window = 4096;
  c.window_layers = all_but_each(4, c.layers);
  c.window_rope_theta = c.rope_theta;
  c.rope_scaling = RopeScaling::yarn;
  c.rope_factor = 8;
  c.rope_original_context = 8192;
  return c;
}

ModelConfig qwen(ModelConfig c) {
  c = llama(std::move(c));
  c.tied = true;
  c.norm_eps = 1e-6;
  c.rope_theta = 1e6;
  return c;
}

ModelConfig qwen_2(ModelConfig c) {
  c = qwen(std::move(c));
  c.qkv_bias = true;
  return c;
}

ModelConfig qwen_3(ModelConfig c) {
  c = qwen(std::move(c));
  c.qk_norm = true;
  c.head_dim = 128;
  return c;
}

ModelConfig mixture(ModelConfig c, std::int64_t experts, std::int64_t experts_per_token,
                    std::int64_t expert_width) {
  c.experts = experts;
  c.experts_per_token = experts_per_token;
  c.expert_width = expert_width;
  return c;
}

ModelConfig qwen_2_moe(ModelConfig c) {
  c = mixture(qwen_2(std::move(c)), 60, 4, 1408);
  c.tied = false;
  c.norm_topk = false;
  c.shared_expert_width = 5632;
  c.shared_expert_gate = true;
  return c;
}

ModelConfig qwen_3_moe(ModelConfig c) {
  c = mixture(qwen_3(std::move(c)), 128, 8, 768);
  c.tied = false;
  return c;
}

ModelConfig olmoe(ModelConfig c) {
  c = mixture(llama(std::move(c)), 64, 8, 1024);
  c.qk_norm = true;
  c.qk_norm_over = QkNormOver::width;
  c.norm_topk = false;
  return c;
}

ModelConfig gpt_oss(ModelConfig c) {
  c = mixture(llama(std::move(c)), 32, 4, 2880);
  c.head_dim = 64;
  c.bias = true;
  c.window = 128;
  c.window_layers = all_but_each(2, c.layers);
  c.attention_sinks = true;
  c.activation = ActivationKind::swiglu_clamped;
  c.expert_bias = true;
  c.rope_theta = 150000;
  c.rope_scaling = RopeScaling::yarn;
  c.rope_factor = 32;
  c.rope_original_context = 4096;
  c.rope_truncate = false;
  return c;
}

ModelConfig gemma(ModelConfig c, std::int64_t window, std::int64_t full) {
  c = llama(std::move(c));
  c.norm_place = NormPlace::both;
  c.activation = ActivationKind::geglu;
  c.tied = true;
  c.scale_embedding = true;
  c.norm_eps = 1e-06;
  c.head_dim = 256;
  c.window = window;
  c.window_layers = all_but_each(full, c.layers);
  return c;
}

ModelConfig gemma_2(ModelConfig c) {
  c = gemma(std::move(c), 4096, 2);
  c.attention_softcap = 50;
  c.logit_softcap = 30;
  return c;
}

ModelConfig gemma_3(ModelConfig c) {
  c = gemma(std::move(c), 512, 6);
  c.qk_norm = true;
  c.rope_theta = 1e6;
  c.window_rope_theta = 10000;
  return c;
}

// GPT-2: Radford et al. 2019. The vocabulary of 50257 is padded to a multiple of 64, and ffn_width
// follows from width. llama-7B and 70B: Touvron et al. 2023, "Llama 2". llama-1B: the shape of
// Zhang et al. 2024, "TinyLlama". The other presets follow config.json of Llama-3.2-1B,
// Meta-Llama-3-8B, Mistral-7B-v0.3, SmolLM2-135M, SmolLM3-3B-Base, granite-3.3-2b-base,
// GLM-4-9B-0414, OLMo-2-0425-1B, Olmo-3-1025-7B, gemma-2-2b, gemma-3-1b-pt, Qwen2-0.5B, Qwen3-0.6B,
// Mixtral-8x7B-v0.1, OLMoE-1B-7B-0924, Qwen1.5-MoE-A2.7B, Qwen3-30B-A3B and gpt-oss-20b as their
// authors published them on huggingface.co. The context length is max_position_embeddings.
struct Preset {
  std::string_view name;
  ModelConfig model;
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"gpt2-124M", with_shape(12, 768, 12, 0, 0, 50304, 1024)},
      {"gpt2-350M", with_shape(24, 1024, 16, 0, 0, 50304, 1024)},
      {"gpt2-774M", with_shape(36, 1280, 20, 0, 0, 50304, 1024)},
      {"gpt2-1558M", with_shape(48, 1600, 25, 0, 0, 50304, 1024)},
      {"llama-1B", llama(with_shape(22, 2048, 32, 4, 5632, 32000, 2048))},
      {"llama-7B", llama(with_shape(32, 4096, 32, 32, 11008, 32000, 4096))},
      {"llama-70B", llama(with_shape(80, 8192, 64, 8, 28672, 32000, 4096))},
      {"llama-3.2-1B", llama_3_2(with_shape(16, 2048, 32, 8, 8192, 128256, 131072))},
      {"llama-3-8B", llama_3(with_shape(32, 4096, 32, 8, 14336, 128256, 8192))},
      {"mistral-7B-v0.3", mistral(with_shape(32, 4096, 32, 8, 14336, 32768, 32768))},
      {"smollm2-135M", smollm2(with_shape(30, 576, 9, 3, 1536, 49152, 8192))},
      {"smollm3-3B", smollm3(with_shape(36, 2048, 16, 4, 11008, 128256, 65536))},
      {"granite-3.3-2B", granite(with_shape(40, 2048, 32, 8, 8192, 49152, 131072))},
      {"glm4-9B", glm_4(with_shape(40, 4096, 32, 2, 13696, 151552, 32768))},
      {"olmo2-1B", olmo_2(with_shape(16, 2048, 16, 16, 8192, 100352, 4096))},
      {"olmo3-7B", olmo_3(with_shape(32, 4096, 32, 32, 11008, 100278, 65536))},
      {"gemma2-2B", gemma_2(with_shape(26, 2304, 8, 4, 9216, 256000, 8192))},
      {"gemma3-1B", gemma_3(with_shape(26, 1152, 4, 1, 6912, 262144, 32768))},
      {"qwen2-0.5B", qwen_2(with_shape(24, 896, 14, 2, 4864, 151936, 131072))},
      {"qwen3-0.6B", qwen_3(with_shape(28, 1024, 16, 8, 3072, 151936, 40960))},
      {"mixtral-8x7B",
       mixture(mistral(with_shape(32, 4096, 32, 8, 14336, 32000, 32768)), 8, 2, 14336)},
      {"olmoe-1B-7B", olmoe(with_shape(16, 2048, 16, 16, 1024, 50304, 4096))},
      {"qwen1.5-moe-A2.7B", qwen_2_moe(with_shape(24, 2048, 16, 16, 5632, 151936, 8192))},
      {"qwen3-30B-A3B", qwen_3_moe(with_shape(48, 2048, 32, 4, 6144, 151936, 40960))},
      {"gpt-oss-20B", gpt_oss(with_shape(24, 2880, 64, 8, 2880, 201088, 131072))},
  };
  return all;
}

}  // namespace

ModelConfig completed(ModelConfig c) {
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_dim == 0 && c.width % c.heads == 0) c.head_dim = c.width / c.heads;
  if (c.ffn_width == 0) {
    if (is_gated(c.activation)) {
      const std::int64_t least = (8 * c.width + 2) / 3;
      c.ffn_width = (least + 63) / 64 * 64;
    } else {
      c.ffn_width = 4 * c.width;
    }
  }
  if (c.experts > 0 && c.expert_width == 0) c.expert_width = c.ffn_width;
  return c;
}

bool has_experts(const ModelConfig& c, std::int64_t layer) {
  return c.experts > 0 && std::ranges::find(c.dense_layers, layer) == c.dense_layers.end();
}

std::int64_t window_of(const ModelConfig& c, std::int64_t layer) {
  const auto& some = c.window_layers;
  return some.empty() || std::ranges::find(some, layer) != some.end() ? c.window : 0;
}

bool has_rotary(const ModelConfig& c, std::int64_t layer) {
  return c.positions == Positions::rotary &&
         std::ranges::find(c.nope_layers, layer) == c.nope_layers.end();
}

ModelConfig canonical(ModelConfig c) {
  const ModelConfig plain;
  const bool rotary = c.positions == Positions::rotary;
  if (c.window_rope_theta == c.rope_theta && c.rope_scaling == RopeScaling::none)
    c.window_rope_theta = plain.window_rope_theta;
  const bool turns_alike = c.window_rope_theta == 0 || !rotary;
  if (c.window >= c.max_context && turns_alike) c.window = plain.window;
  std::ranges::sort(c.window_layers);
  if (c.window == 0 || std::ssize(c.window_layers) == c.layers)
    c.window_layers = plain.window_layers;
  if (c.window == 0 || !rotary) c.window_rope_theta = plain.window_rope_theta;
  if (c.head_dim > 0 &&  // Python's head_dim**-0.5 rounds differently
      std::abs(c.attention_scale * std::sqrt(static_cast<double>(c.head_dim)) - 1) <= 4e-16)
    c.attention_scale = plain.attention_scale;
  if (c.bias) c.qkv_bias = plain.qkv_bias;
  if (!c.qk_norm) c.qk_norm_over = plain.qk_norm_over;
  c.max_context = plain.max_context;
  std::ranges::sort(c.dense_layers);
  if (c.experts == 0) {
    c.experts_per_token = plain.experts_per_token;
    c.expert_width = plain.expert_width;
    c.shared_expert_width = plain.shared_expert_width;
    c.expert_bias = plain.expert_bias;
    c.router = plain.router;
    c.norm_topk = plain.norm_topk;
    c.dense_layers = plain.dense_layers;
  } else if (c.dense_layers.empty()) {
    c.ffn_width = c.expert_width;
  }
  if (c.shared_expert_width == 0) c.shared_expert_gate = plain.shared_expert_gate;
  std::ranges::sort(c.nope_layers);
  if (!rotary) c.nope_layers = plain.nope_layers;
  if (!rotary || c.rotary_dim == c.head_dim) c.rotary_dim = plain.rotary_dim;
  if (c.scale_embedding) c.embedding_scale = plain.embedding_scale;
  if (!rotary) {
    c.rope_theta = plain.rope_theta;
    c.rope_scaling = RopeScaling::none;
  }
  if (c.rope_scaling == RopeScaling::none) c.rope_factor = plain.rope_factor;
  if (c.rope_scaling != RopeScaling::llama3) {
    c.rope_low_freq_factor = plain.rope_low_freq_factor;
    c.rope_high_freq_factor = plain.rope_high_freq_factor;
  }
  if (c.rope_scaling != RopeScaling::yarn) {
    c.rope_beta_fast = plain.rope_beta_fast;
    c.rope_beta_slow = plain.rope_beta_slow;
    c.rope_truncate = plain.rope_truncate;
    c.rope_attention_factor = plain.rope_attention_factor;
    if (c.rope_scaling != RopeScaling::llama3)
      c.rope_original_context = plain.rope_original_context;
  }
  return c;
}

std::vector<std::string_view> model_preset_names() {
  std::vector<std::string_view> names;
  for (const auto& p : presets()) names.push_back(p.name);
  return names;
}

ModelConfig model_preset(std::string_view name) {
  for (const auto& p : presets())
    if (p.name == name) return p.model;
  fail("there is no model preset '{}'", name);
}

}  // namespace trireme
