// From the [model] section to config.json.
#include "lib/base/error.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

namespace {

// `key` names what no architecture has together with the rest.
[[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view why) {
  fail(
      "no architecture of Hugging Face describes this model: model.{} = {}, and {}; the format "
      "hdf5 takes any model",
      key, value, why);
}

std::string_view text_of(bool x) {
  return x ? "true" : "false";
}

std::string in_quotes(std::string_view name) {
  return fmt::format("\"{}\"", name);
}

void require_gpt2(const ModelConfig& c) {
  constexpr const char* why = "GPT2LMHeadModel, which has learned positions, is otherwise";
  if (c.norm != NormKind::layer) refuse("norm", in_quotes(name_of(c.norm)), why);
  if (c.activation != ActivationKind::gelu)
    refuse("activation", in_quotes(name_of(c.activation)), why);
  if (!c.bias) refuse("bias", "false", why);
  if (c.qk_norm) refuse("qk_norm", "true", why);
  if (c.kv_heads != c.heads)
    refuse("kv_heads", fmt::format("{} of {}", c.kv_heads, c.heads),
           "GPT2LMHeadModel has as many as heads");
  if (c.heads * c.head_dim != c.width)
    refuse("head_dim", fmt::format("{}", c.head_dim), "GPT2LMHeadModel has width / heads");
}

void require_llama(const ModelConfig& c) {
  constexpr const char* why = "those with rotary positions are otherwise";
  if (c.norm != NormKind::rms) refuse("norm", in_quotes(name_of(c.norm)), why);
  if (c.activation != ActivationKind::swiglu)
    refuse("activation", in_quotes(name_of(c.activation)), why);
  const bool some_bias = c.bias || c.qkv_bias;
  if (c.qk_norm && some_bias)
    refuse(c.bias ? "bias" : "qkv_bias", text_of(true),
           "Qwen3ForCausalLM, which has model.qk_norm = true, has no biases");
  if (!c.qk_norm && !(c.qkv_bias && !c.bias) && c.width % c.heads != 0)
    refuse("heads", fmt::format("{}", c.heads),
           fmt::format("LlamaForCausalLM wants a divisor of model.width = {}", c.width));
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
  }
  return {};
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
  if (architecture == "LlamaForCausalLM") {
    json["model_type"] = "llama";
    json["attention_bias"] = json["mlp_bias"] = c.bias;
    return json;
  }
  json["model_type"] = architecture == "Qwen2ForCausalLM" ? "qwen2" : "qwen3";
  json["use_sliding_window"] = false;
  if (architecture == "Qwen3ForCausalLM") json["attention_bias"] = false;
  return json;
}

}  // namespace

std::string architecture_of(const ModelConfig& c) {
  if (c.positions == Positions::learned) {
    require_gpt2(c);
    return "GPT2LMHeadModel";
  }
  require_llama(c);
  if (c.qk_norm) return "Qwen3ForCausalLM";
  return c.qkv_bias && !c.bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM";
}

Json config_of_model(const ModelConfig& c, const TextIds& ids, ElementType type) {
  const auto architecture = architecture_of(c);
  Json json = c.positions == Positions::learned ? gpt2(c) : llama(c, architecture);
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
