// From the [model] section to config.json.
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_windows.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

namespace {

// `key` names what no architecture has together with the rest: `whose` has `other`.
[[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view whose,
                         std::string_view other) {
  fail(
      "no architecture of transformers fits this model: model.{} = {}, and {} needs {}. Train with "
      "that, or export with --format hdf5, which takes any model",
      key, value, whose, other);
}

std::string_view text_of(bool x) {
  return x ? "true" : "false";
}

std::string in_quotes(std::string_view name) {
  return fmt::format("\"{}\"", name);
}

void require_plain_head_dim(const ModelConfig& c, std::string_view whose) {
  if (c.heads * c.head_dim != c.width)
    refuse("head_dim", fmt::format("{}", c.head_dim), whose,
           fmt::format("model.width / model.heads, {} / {}", c.width, c.heads));
}

std::string text_of(const std::vector<std::int64_t>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

// Of a model as canonical() has it: window_layers lists some layers, not all.
void require_no_window(const ModelConfig& c, std::string_view whose) {
  if (c.window > 0) refuse("window", fmt::format("{}", c.window), whose, "0, no window");
}
void require_one_window(const ModelConfig& c, std::string_view whose) {
  if (!c.window_layers.empty())
    refuse("window_layers", text_of(c.window_layers), whose, "[], the window in all layers");
}

void require_gpt2(const ModelConfig& c) {
  if (c.experts > 0) refuse("positions", "\"learned\"", "each with experts", "\"rotary\"");
  constexpr const char* gpt2 = "GPT2LMHeadModel, the one with learned positions,";
  if (c.norm != NormKind::layer) refuse("norm", in_quotes(name_of(c.norm)), gpt2, "\"layer\"");
  if (c.activation != ActivationKind::gelu)
    refuse("activation", in_quotes(name_of(c.activation)), gpt2, "\"gelu\"");
  if (!c.bias) refuse("bias", "false", gpt2, "true");
  if (c.qk_norm) refuse("qk_norm", "true", gpt2, "false");
  if (c.kv_heads != c.heads)
    refuse("kv_heads", fmt::format("{}", c.kv_heads), gpt2,
           fmt::format("as many as model.heads = {}", c.heads));
  require_no_window(c, gpt2);
  require_plain_head_dim(c, gpt2);
}

void require_rotary(const ModelConfig& c) {
  constexpr const char* rotary = "each with rotary positions";
  if (c.norm != NormKind::rms) refuse("norm", in_quotes(name_of(c.norm)), rotary, "\"rms\"");
  if (c.activation != ActivationKind::swiglu)
    refuse("activation", in_quotes(name_of(c.activation)), rotary, "\"swiglu\"");
  if (c.qk_norm && (c.bias || c.qkv_bias))
    refuse(c.bias ? "bias" : "qkv_bias", text_of(true), "each with model.qk_norm = true", "false");
}

std::string dense_architecture(const ModelConfig& c) {
  if (c.qk_norm) {
    if (c.qk_norm_over == QkNormOver::width)
      refuse("qk_norm_over", "\"width\"",
             "Qwen3ForCausalLM, the one with model.qk_norm = true and no experts,", "\"head\"");
    return "Qwen3ForCausalLM";
  }
  if (c.qkv_bias && !c.bias) return "Qwen2ForCausalLM";
  if (c.window > 0) {
    constexpr const char* mistral =
        "MistralForCausalLM, the one with a window and neither model.qk_norm nor model.qkv_bias,";
    if (c.bias) refuse("bias", text_of(true), mistral, "false");
    require_one_window(c, mistral);
    return "MistralForCausalLM";
  }
  if (c.width % c.heads != 0)
    refuse("heads", fmt::format("{}", c.heads), "LlamaForCausalLM",
           fmt::format("a divisor of model.width = {}", c.width));
  return "LlamaForCausalLM";
}

void require_mixtral(const ModelConfig& c) {
  constexpr const char* mixtral =
      "MixtralForCausalLM, the one with experts, without model.qk_norm and without a shared "
      "expert,";
  if (c.qkv_bias) refuse("qkv_bias", text_of(true), mixtral, "false");
  require_one_window(c, mixtral);
  if (!c.norm_topk) refuse("norm_topk", text_of(false), mixtral, "true");
  if (!c.dense_layers.empty())
    refuse("dense_layers", text_of(c.dense_layers), mixtral,
           "[]; those with model.qk_norm = true or a shared expert may have some");
}

void require_olmoe(const ModelConfig& c) {
  constexpr const char* olmoe =
      "OlmoeForCausalLM, the one with experts and model.qk_norm_over = \"width\",";
  if (!c.dense_layers.empty()) refuse("dense_layers", text_of(c.dense_layers), olmoe, "[]");
  require_no_window(c, olmoe);
  require_plain_head_dim(c, olmoe);
}

void require_qwen2_moe(const ModelConfig& c) {
  constexpr const char* qwen2 = "Qwen2MoeForCausalLM, the one with a shared expert,";
  if (!c.shared_expert_gate) refuse("shared_expert_gate", text_of(false), qwen2, "true");
  require_no_window(c, qwen2);
  require_plain_head_dim(c, qwen2);
}

std::string mixture_architecture(const ModelConfig& c) {
  constexpr const char* mixtures = "each with experts";
  if (c.router != RouterScores::softmax)
    refuse("router", in_quotes(name_of(c.router)), mixtures, "\"softmax\"");
  if (c.bias) refuse("bias", text_of(true), mixtures, "false");
  if (c.qk_norm && c.shared_expert_width > 0)
    refuse("shared_expert_width", fmt::format("{}", c.shared_expert_width),
           "each with experts and model.qk_norm = true", "0, no shared expert");
  if (c.qk_norm && c.qk_norm_over == QkNormOver::head) {
    require_one_window(c, "Qwen3MoeForCausalLM, the one with experts and model.qk_norm = true,");
    return "Qwen3MoeForCausalLM";
  }
  if (c.qk_norm) {
    require_olmoe(c);
    return "OlmoeForCausalLM";
  }
  if (c.shared_expert_width == 0) {
    require_mixtral(c);
    return "MixtralForCausalLM";
  }
  require_qwen2_moe(c);
  return "Qwen2MoeForCausalLM";
}

Json id_or_null(const std::optional<std::int32_t>& id) {
  return id ? Json(*id) : Json();
}

Json gpt2(const ModelConfig& c) {
  return {{"model_type", "gpt2"},
          {"n_layer", c.layers},
          {"n_embd", c.width},
          {"n_head", c.heads},
          {"n_inner", c.ffn_width},
          {"n_positions", positions_of(c)},
          {"n_ctx", positions_of(c)},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", c.norm_eps},
          {"scale_attn_weights", true},
          {"resid_pdrop", c.dropout},
          {"embd_pdrop", c.dropout},
          {"attn_pdrop", 0.0}};
}

Json rope_scaling(const ModelConfig& c) {
  switch (c.rope_scaling) {
    case RopeScaling::none:
      return {};
    case RopeScaling::linear:
      return {{"rope_type", "linear"}, {"factor", c.rope_factor}};
    case RopeScaling::llama3:
      return {{"rope_type", "llama3"},
              {"factor", c.rope_factor},
              {"low_freq_factor", c.rope_low_freq_factor},
              {"high_freq_factor", c.rope_high_freq_factor},
              {"original_max_position_embeddings", c.rope_original_context}};
    case RopeScaling::yarn: {
      Json yarn{{"rope_type", "yarn"},
                {"factor", c.rope_factor},
                {"beta_fast", c.rope_beta_fast},
                {"beta_slow", c.rope_beta_slow},
                {"original_max_position_embeddings", c.rope_original_context}};
      if (!c.rope_truncate) yarn["truncate"] = false;  // others may not know it
      if (c.rope_attention_factor > 0) yarn["attention_factor"] = c.rope_attention_factor;
      return yarn;
    }
  }
  return {};
}

// Under the names of version 4, which 5 takes as well.
void add_mixture(Json& json, const ModelConfig& c, const std::string& architecture) {
  json["num_experts_per_tok"] = c.experts_per_token;
  if (architecture == "MixtralForCausalLM") {
    json["model_type"] = "mixtral";
    json["num_local_experts"] = c.experts;
    json["intermediate_size"] = c.expert_width;
    add_window(json, c, architecture);
    return;
  }
  json["num_experts"] = c.experts;
  json["norm_topk_prob"] = c.norm_topk;
  if (architecture == "OlmoeForCausalLM") {
    json["model_type"] = "olmoe";
    json["intermediate_size"] = c.expert_width;
    json["attention_bias"] = false;
    json["clip_qkv"] = nullptr;
    return;
  }
  auto dense = c.dense_layers;
  std::ranges::sort(dense);
  json["moe_intermediate_size"] = c.expert_width;
  json["mlp_only_layers"] = dense;
  json["decoder_sparse_step"] = 1;
  add_window(json, c, architecture);
  if (architecture == "Qwen2MoeForCausalLM") {
    json["model_type"] = "qwen2_moe";
    json["shared_expert_intermediate_size"] = c.shared_expert_width;
    json["qkv_bias"] = c.qkv_bias;
  } else {
    json["model_type"] = "qwen3_moe";
    json["attention_bias"] = false;
  }
}

Json llama(const ModelConfig& c, const std::string& architecture) {
  Json json = {{"num_hidden_layers", c.layers},
               {"hidden_size", c.width},
               {"num_attention_heads", c.heads},
               {"num_key_value_heads", c.kv_heads},
               {"head_dim", c.head_dim},
               {"intermediate_size", c.ffn_width},
               {"max_position_embeddings", positions_of(c)},
               {"hidden_act", "silu"},
               {"rms_norm_eps", c.norm_eps},
               {"rope_theta", c.rope_theta},
               {"rope_scaling", rope_scaling(c)},
               {"attention_dropout", 0.0}};
  if (c.experts > 0) {
    add_mixture(json, c, architecture);
    return json;
  }
  if (architecture == "LlamaForCausalLM") {
    json["model_type"] = "llama";
    json["attention_bias"] = json["mlp_bias"] = c.bias;
    return json;
  }
  json["model_type"] = architecture == "Qwen2ForCausalLM"   ? "qwen2"
                       : architecture == "Qwen3ForCausalLM" ? "qwen3"
                                                            : "mistral";
  add_window(json, c, architecture);
  if (architecture == "Qwen3ForCausalLM") json["attention_bias"] = false;
  return json;
}

}  // namespace

std::string architecture_of(const ModelConfig& model) {
  const auto c = with_plain_windows(model);
  if (c.attention_sinks) refuse("attention_sinks", text_of(true), "each that is exported", "false");
  if (c.positions == Positions::learned) {
    require_gpt2(c);
    return "GPT2LMHeadModel";
  }
  require_rotary(c);
  return c.experts > 0 ? mixture_architecture(c) : dense_architecture(c);
}

Json config_of_model(const ModelConfig& c, const TextIds& ids, ElementType type) {
  const auto architecture = architecture_of(c);
  Json json =
      c.positions == Positions::learned ? gpt2(c) : llama(with_plain_windows(c), architecture);
  json["architectures"] = Json::array({architecture});
  json["vocab_size"] = c.vocab;
  json["tie_word_embeddings"] = c.tied;
  json["initializer_range"] = 0.02;
  json["use_cache"] = true;
  json["torch_dtype"] = torch_name(type);
  json["bos_token_id"] = id_or_null(ids.begin);
  json["eos_token_id"] = end_ids(ids.ends);
  json["pad_token_id"] = nullptr;
  return json;
}

Json generation_config(const TextIds& ids) {
  Json json = Json::object();
  if (ids.begin) json["bos_token_id"] = *ids.begin;
  if (!ids.ends.empty()) json["eos_token_id"] = end_ids(ids.ends);
  return json;
}

}  // namespace trireme
