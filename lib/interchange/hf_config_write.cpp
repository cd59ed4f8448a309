// Conversion of the [model] section to config.json.
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_gemma.hpp"
#include "lib/interchange/hf_windows.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

namespace {

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

// Adds the keys of experts. The names are those of transformers 4, which version 5 accepts as well.
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
  if (architecture.starts_with("Gemma")) {
    add_gemma(json, c, architecture);
    return json;
  }
  if (architecture == "Olmo2ForCausalLM") {
    json["model_type"] = "olmo2";
    json["attention_bias"] = false;
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
  json["pad_token_id"] = id_or_null(ids.pad && *ids.pad < c.vocab ? ids.pad : std::nullopt);
  return json;
}

Json generation_config(const TextIds& ids) {
  Json json = Json::object();
  if (ids.begin) json["bos_token_id"] = *ids.begin;
  if (!ids.ends.empty()) json["eos_token_id"] = end_ids(ids.ends);
  if (ids.pad) json["pad_token_id"] = *ids.pad;
  return json;
}

}  // namespace trireme
