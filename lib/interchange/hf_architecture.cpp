// Choice of the architecture of transformers that computes what a [model] section describes.
#include <fmt/ranges.h>

#include "lib/base/error.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_gemma.hpp"
#include "lib/interchange/hf_windows.hpp"

namespace trireme {

namespace {

// Throws Error: no architecture supports the value of `key` together with the other settings. The
// architecture `whose` needs the value `other`.
[[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view whose,
                         std::string_view other) {
  fail(
      "no architecture of transformers fits this model: model.{} = {}, but {} requires {}. Change "
      "this and train again, or export with --format hdf5, which supports every model",
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
           fmt::format("model.width / model.heads = {} / {}", c.width, c.heads));
}

std::string text_of(const std::vector<std::int64_t>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

// Throws Error if the model has a window. The model must be canonical, so that window_layers lists
// some layers but not all.
void require_no_window(const ModelConfig& c, std::string_view whose) {
  if (c.window > 0) refuse("window", fmt::format("{}", c.window), whose, "0 (no window)");
}
void require_one_window(const ModelConfig& c, std::string_view whose) {
  if (!c.window_layers.empty())
    refuse("window_layers", text_of(c.window_layers), whose, "[] (the window in all layers)");
}

void require_norm_before(const ModelConfig& c, std::string_view whose) {
  if (c.norm_place != NormPlace::before)
    refuse("norm_place", in_quotes(name_of(c.norm_place)), whose, "\"before\"");
}

void require_gpt2(const ModelConfig& c) {
  if (c.experts > 0)
    refuse("positions", "\"learned\"", "every architecture with experts", "\"rotary\"");
  constexpr const char* gpt2 = "GPT2LMHeadModel (learned positions)";
  if (c.norm != NormKind::layer) refuse("norm", in_quotes(name_of(c.norm)), gpt2, "\"layer\"");
  require_norm_before(c, gpt2);
  if (c.activation != ActivationKind::gelu)
    refuse("activation", in_quotes(name_of(c.activation)), gpt2, "\"gelu\"");
  if (!c.bias) refuse("bias", "false", gpt2, "true");
  if (c.qk_norm) refuse("qk_norm", "true", gpt2, "false");
  if (c.kv_heads != c.heads)
    refuse("kv_heads", fmt::format("{}", c.kv_heads), gpt2,
           fmt::format("{}, the value of model.heads", c.heads));
  require_no_window(c, gpt2);
  require_plain_head_dim(c, gpt2);
}

void require_rotary(const ModelConfig& c) {
  constexpr const char* rotary = "every architecture with rotary positions";
  if (c.norm != NormKind::rms) refuse("norm", in_quotes(name_of(c.norm)), rotary, "\"rms\"");
  if (c.qk_norm && (c.bias || c.qkv_bias))
    refuse(c.bias ? "bias" : "qkv_bias", text_of(true),
           "every architecture with model.qk_norm = true", "false");
}

// Throws Error unless the number of heads divides the width, even if model.head_dim has another
// value.
void require_heads_that_divide(const ModelConfig& c, std::string_view whose) {
  if (c.width % c.heads != 0)
    refuse("heads", fmt::format("{}", c.heads), whose,
           fmt::format("a divisor of model.width = {}", c.width));
}

void require_olmo2(const ModelConfig& c) {
  constexpr const char* olmo2 = "Olmo2ForCausalLM (model.norm_place = \"after\")";
  if (!c.qk_norm) refuse("qk_norm", text_of(false), olmo2, "true");
  if (c.qk_norm_over != QkNormOver::width)
    refuse("qk_norm_over", in_quotes(name_of(c.qk_norm_over)), olmo2, "\"width\"");
  require_no_window(c, olmo2);
}

void require_swiglu(const ModelConfig& c) {
  if (c.activation != ActivationKind::swiglu)
    refuse("activation", in_quotes(name_of(c.activation)),
           "every architecture with rotary positions except Gemma's", "\"swiglu\"");
}

// Throws Error if the model has features that only Gemma has.
void require_no_gemma(const ModelConfig& c) {
  constexpr const char* others = "every architecture except Gemma's (model.norm_place = \"both\")";
  if (c.scale_embedding) refuse("scale_embedding", text_of(true), others, "false");
  const auto plain = canonical(c);
  if (plain.attention_scale != 0)
    refuse("attention_scale", fmt::format("{}", c.attention_scale), others,
           "1/sqrt(model.head_dim)");
  if (c.attention_softcap != 0)
    refuse("attention_softcap", fmt::format("{}", c.attention_softcap), others, "0");
  if (c.logit_softcap != 0)
    refuse("logit_softcap", fmt::format("{}", c.logit_softcap), others, "0");
  if (plain.window_rope_theta != 0)
    refuse("window_rope_theta", fmt::format("{}", c.window_rope_theta), others, "\"auto\"");
}

std::string gemma_architecture(const ModelConfig& c) {
  constexpr const char* gemma = "every architecture with model.norm_place = \"both\"";
  if (c.experts > 0) refuse("experts", fmt::format("{}", c.experts), gemma, "0");
  require_heads_that_divide(c, gemma);
  if (c.activation != ActivationKind::geglu)
    refuse("activation", in_quotes(name_of(c.activation)), gemma, "\"geglu\"");
  if (!c.scale_embedding) refuse("scale_embedding", text_of(false), gemma, "true");
  if (c.bias || c.qkv_bias) refuse(c.bias ? "bias" : "qkv_bias", text_of(true), gemma, "false");
  if (query_scalar_of(c) == 0)
    refuse("attention_scale", fmt::format("{}", c.attention_scale), gemma,
           "1/sqrt(n) with a whole number n");
  if (!c.qk_norm) {
    if (c.window_rope_theta != 0)
      refuse("window_rope_theta", fmt::format("{}", c.window_rope_theta),
             "Gemma2ForCausalLM (no model.qk_norm)", "\"auto\"");
    return "Gemma2ForCausalLM";
  }
  constexpr const char* third = "Gemma3ForCausalLM (model.qk_norm = true)";
  if (c.qk_norm_over != QkNormOver::head)
    refuse("qk_norm_over", in_quotes(name_of(c.qk_norm_over)), third, "\"head\"");
  if (c.attention_softcap != 0)
    refuse("attention_softcap", fmt::format("{}", c.attention_softcap), third, "0");
  if (c.window > 0 && c.window_rope_theta == 0 && c.rope_scaling != RopeScaling::none)
    refuse("rope_scaling", in_quotes(name_of(c.rope_scaling)), third,
           "model.window_rope_theta, because Gemma 3 does not scale blocks with a window");
  return "Gemma3ForCausalLM";
}

std::string dense_architecture(const ModelConfig& c) {
  if (c.norm_place == NormPlace::after) {
    require_olmo2(c);
    return "Olmo2ForCausalLM";
  }
  if (c.qk_norm) {
    if (c.qk_norm_over == QkNormOver::width)
      refuse("qk_norm_over", "\"width\"",
             "Qwen3ForCausalLM (model.qk_norm = true, model.norm_place = \"before\", no experts)",
             "\"head\"");
    return "Qwen3ForCausalLM";
  }
  if (c.qkv_bias && !c.bias) return "Qwen2ForCausalLM";
  // Mistral's class does not require that the number of heads divides the width.
  if (c.window > 0 || (c.width % c.heads != 0 && !c.bias)) {
    constexpr const char* mistral =
        "MistralForCausalLM (a window, neither model.qk_norm nor model.qkv_bias)";
    if (c.bias) refuse("bias", text_of(true), mistral, "false");
    require_one_window(c, mistral);
    return "MistralForCausalLM";
  }
  require_heads_that_divide(c, "LlamaForCausalLM");
  return "LlamaForCausalLM";
}

void require_mixtral(const ModelConfig& c) {
  constexpr const char* mixtral =
      "MixtralForCausalLM (experts, neither model.qk_norm nor a shared expert)";
  if (c.qkv_bias) refuse("qkv_bias", text_of(true), mixtral, "false");
  require_one_window(c, mixtral);
  if (!c.norm_topk) refuse("norm_topk", text_of(false), mixtral, "true");
  if (!c.dense_layers.empty())
    refuse("dense_layers", text_of(c.dense_layers), mixtral,
           "[] (dense layers need a shared expert or model.qk_norm = true)");
}

void require_olmoe(const ModelConfig& c) {
  constexpr const char* olmoe = "OlmoeForCausalLM (experts, model.qk_norm_over = \"width\")";
  if (!c.dense_layers.empty()) refuse("dense_layers", text_of(c.dense_layers), olmoe, "[]");
  require_no_window(c, olmoe);
  require_plain_head_dim(c, olmoe);
}

void require_qwen2_moe(const ModelConfig& c) {
  constexpr const char* qwen2 = "Qwen2MoeForCausalLM (a shared expert)";
  if (!c.shared_expert_gate) refuse("shared_expert_gate", text_of(false), qwen2, "true");
  require_no_window(c, qwen2);
  require_plain_head_dim(c, qwen2);
}

std::string mixture_architecture(const ModelConfig& c) {
  constexpr const char* mixtures = "every architecture with experts";
  if (c.router != RouterScores::softmax)
    refuse("router", in_quotes(name_of(c.router)), mixtures, "\"softmax\"");
  if (c.bias) refuse("bias", text_of(true), mixtures, "false");
  require_norm_before(c, mixtures);
  if (c.qk_norm && c.shared_expert_width > 0)
    refuse("shared_expert_width", fmt::format("{}", c.shared_expert_width),
           "every architecture with experts and model.qk_norm = true", "0 (no shared expert)");
  if (c.qk_norm && c.qk_norm_over == QkNormOver::head) {
    require_one_window(c, "Qwen3MoeForCausalLM (experts, model.qk_norm = true)");
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

}  // namespace

std::string architecture_of(const ModelConfig& model) {
  const auto c = with_plain_windows(model);
  if (c.attention_sinks)
    refuse("attention_sinks", text_of(true), "every architecture that can be exported", "false");
  if (c.positions == Positions::learned) {
    require_gpt2(c);
    require_no_gemma(c);
    return "GPT2LMHeadModel";
  }
  require_rotary(c);
  if (c.norm_place == NormPlace::both) return gemma_architecture(c);
  require_swiglu(c);
  require_no_gemma(c);
  return c.experts > 0 ? mixture_architecture(c) : dense_architecture(c);
}

}  // namespace trireme
