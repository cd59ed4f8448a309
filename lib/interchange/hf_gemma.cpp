#include "lib/interchange/hf_gemma.hpp"

#include <cmath>

#include "lib/base/error.hpp"
#include "lib/interchange/hf_windows.hpp"

namespace trireme {

constexpr const char* tanh_gelu = "gelu_pytorch_tanh";

static double scale_of(std::int64_t scalar) {
  return 1 / std::sqrt(static_cast<double>(scalar));
}

bool is_gemma(std::string_view model_type) {
  return model_type == "gemma2" || model_type == "gemma3_text";
}

void read_gemma(const ConfigFields& f, std::string_view model_type, ModelConfig& c) {
  const bool second = model_type == "gemma2";
  f.refuse_if(f.text("hidden_activation", tanh_gelu) != tanh_gelu, "hidden_activation",
              "only the tanh approximation of GELU (\"gelu_pytorch_tanh\") is supported");
  f.unused("hidden_act");
  // The larger models of Gemma 2 give the window twice.
  f.refuse_if(second && f.integer("sliding_window_size", c.window) != c.window && c.window > 0,
              "sliding_window_size", "it differs from 'sliding_window'");
  f.refuse_if(f.flag("use_bidirectional_attention", false), "use_bidirectional_attention",
              "only causal attention is supported");
  c.activation = ActivationKind::geglu;
  c.norm_place = NormPlace::both;
  c.scale_embedding = true;
  // Null means no cap. A cap of 0 is refused: transformers divides by it, but here 0 means no cap.
  const auto cap = [&](const char* key, double otherwise) {
    const double c = f.real(key, f.names(key) ? 0 : otherwise);
    f.refuse_if(c == 0 && f.find(key), key, "a cap must not be 0. Write null for no cap");
    return c;
  };
  c.logit_softcap = cap("final_logit_softcapping", second ? 30 : 0);
  if (second)
    c.attention_softcap = cap("attn_logit_softcapping", 50);
  else
    f.refuse_if(f.find("attn_logit_softcapping"), "attn_logit_softcapping",
                "the Gemma 3 class of transformers does not use it");
  const auto scalar = f.integer("query_pre_attn_scalar", 256);
  const auto dim = c.head_dim > 0 ? c.head_dim : c.width / c.heads;
  c.attention_scale = scalar == dim ? 0 : scale_of(scalar);
  if (c.window == 0) c.window_rope_theta = 0;
}

const Json* full_rope_of_gemma3(const ConfigFields& f, ModelConfig& c) {
  const auto* const all = f.find("rope_parameters");
  c.window_rope_theta = f.positive("rope_local_base_freq", 10000);
  if (!all) return all;
  f.refuse_if(!all->contains("full_attention") && !all->contains("sliding_attention"),
              "rope_parameters", "Gemma 3 needs 'full_attention' or 'sliding_attention' in it");
  const auto* const scaling = f.find("rope_scaling");
  f.refuse_if(scaling && !scaling->empty(), "rope_scaling",
              "'rope_parameters' already specifies the scaling for each type of layer");
  const ConfigFields by_type(*all, "rope_parameters");
  const auto* const full = by_type.find("full_attention");
  if (const auto* const sliding = by_type.find("sliding_attention")) {
    const ConfigFields of_window(*sliding, "rope_parameters.sliding_attention");
    c.window_rope_theta = of_window.positive("rope_theta", c.window_rope_theta);
    of_window.refuse_if(of_window.text("rope_type", "default") != "default", "rope_type",
                        "scaled rotary positions in layers with a window are not supported");
    of_window.refuse_if(of_window.real("partial_rotary_factor", 1) != 1, "partial_rotary_factor",
                        "only rotary positions that rotate all channels of a head are supported");
    of_window.refuse_rest("gemma3_text");
  }
  by_type.refuse_rest("gemma3_text");
  return full;
}

std::int64_t query_scalar_of(const ModelConfig& c) {
  if (c.attention_scale == 0) return c.head_dim;
  const auto scalar = std::llround(1 / (c.attention_scale * c.attention_scale));
  // Python's n**-0.5 may be rounded differently.
  const bool equal =
      scalar >= 1 && std::abs(scale_of(scalar) - c.attention_scale) <= 4e-16 * c.attention_scale;
  return equal ? scalar : 0;
}

void add_gemma(Json& json, const ModelConfig& c, const std::string& architecture) {
  json["hidden_act"] = json["hidden_activation"] = tanh_gelu;
  json["attention_bias"] = false;
  json["query_pre_attn_scalar"] = query_scalar_of(c);
  const auto cap = [](double x) { return x > 0 ? Json(x) : Json(); };
  json["final_logit_softcapping"] = cap(c.logit_softcap);
  json["attn_logit_softcapping"] = cap(c.attention_softcap);
  add_window(json, c, architecture);
  if (architecture == "Gemma2ForCausalLM") {
    json["model_type"] = "gemma2";
    return;
  }
  json["model_type"] = "gemma3_text";
  json["rope_local_base_freq"] = c.window_rope_theta > 0 ? c.window_rope_theta : c.rope_theta;
}

}  // namespace trireme
