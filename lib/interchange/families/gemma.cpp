#include "lib/interchange/families/gemma.hpp"

#include <cmath>

namespace trireme {

static constexpr TensorRow gemma_norm_rows[] = {
    {"blocks.#.attention_norm.weight", "model.layers.#.input_layernorm.weight"},
    {"blocks.#.attention_out_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
    {"blocks.#.ffn_norm.weight", "model.layers.#.pre_feedforward_layernorm.weight"},
    {"blocks.#.ffn_out_norm.weight", "model.layers.#.post_feedforward_layernorm.weight"},
};

static double scale_of(std::int64_t scalar) {
  return 1 / std::sqrt(static_cast<double>(scalar));
}

std::int64_t query_scalar_of(const ModelConfig& c) {
  if (c.attention_scale == 0) return c.head_dim;
  const auto scalar = std::llround(1 / (c.attention_scale * c.attention_scale));
  // Python's n**-0.5 may be rounded differently.
  const bool equal =
      scalar >= 1 && std::abs(scale_of(scalar) - c.attention_scale) <= 1e-15 * c.attention_scale;
  return equal ? scalar : 0;
}

void softcap_config(ConfigArchive& a, const char* key, double& cap, double otherwise) {
  a.note(key, cap > 0 ? Json(cap) : Json());
  if (!a.reads()) return;
  const auto& f = a.fields();
  cap = f.real(key, f.names(key) ? 0 : otherwise);
  // transformers divides by the cap, but in a deck 0 means no cap.
  f.refuse_if(cap == 0 && f.find(key), key, "a cap must not be 0. Write null for no cap");
}

static void query_scalar_config(ConfigArchive& a, ModelConfig& c) {
  const auto dim = c.head_dim > 0 ? c.head_dim : c.width / c.heads;
  auto scalar = a.reads() ? dim : query_scalar_of(c);
  if (scalar == 0) scalar = dim;  // no number describes the model
  a.integer("query_pre_attn_scalar", scalar, 256);
  if (a.reads()) c.attention_scale = scalar == dim ? 0 : scale_of(scalar);
}

void gemma_config(ConfigArchive& a, ModelConfig& c, std::int64_t context, double logit_softcap) {
  constexpr const char* tanh_gelu = "gelu_pytorch_tanh";
  decoder_config(a, c,
                 {.context = context,
                  .kv_heads = 4,
                  .head_dim = 256,
                  .tied = true,
                  .heads_divide_width = true});
  no_bias(a);
  a.note("attention_bias", false);
  a.constant("hidden_activation", tanh_gelu,
             "only the tanh approximation of GELU (\"gelu_pytorch_tanh\") is supported");
  if (a.reads()) a.fields().unused("hidden_act");
  a.note("hidden_act", tanh_gelu);
  a.require_equal("use_bidirectional_attention", false, "only causal attention is supported");
  c.activation = ActivationKind::geglu;
  c.norm_place = NormPlace::both;
  c.scale_embedding = true;
  softcap_config(a, "final_logit_softcapping", c.logit_softcap, logit_softcap);
  query_scalar_config(a, c);
}

TensorTable gemma_rows() {
  auto rows = joined({trunk_rows, qkv_rows, qk_norm_rows, gate_up_rows, gemma_norm_rows});
  for (auto& row : rows)
    if (row.param.ends_with("norm.weight")) row.plus = 1;
  return rows;
}

}  // namespace trireme
