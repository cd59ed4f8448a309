// gpt-oss: attention sinks, windows in every other layer, and experts with biases and a clamped
// SwiGLU. Published folders contain the experts in MXFP4.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/mixture.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void quantization(const ConfigFields& f) {
  const auto* const given = f.find("quantization_config");
  if (!given) return;
  const auto method = ConfigFields(*given, "quantization_config").text("quant_method", "");
  f.refuse_if(method != "mxfp4", "quantization_config",
              "only MXFP4 is supported for this type of model");
}

static void gpt_oss_config(ConfigArchive& a, ModelConfig& c) {
  static const Json yarn = {{"rope_type", "yarn"}, {"factor", 32.0},
                            {"beta_fast", 32.0},   {"beta_slow", 1.0},
                            {"truncate", false},   {"original_max_position_embeddings", 4096}};
  decoder_config(a, c, {.context = 131072, .kv_heads = 8, .head_dim = 64, .norm_eps = 1e-5});
  a.flag("attention_bias", c.bias, true);
  silu_config(a);
  constexpr auto why = "only the value of the published models is supported";
  a.constant("swiglu_alpha", 1.702, why);
  a.constant("swiglu_limit", 7.0, why);
  window_config(a, c, {.otherwise = 128, .by_layer = true, .layers = all_but_each(2, c)});
  rope_config(a, c, {.theta = 150000, .scaling = &yarn});
  experts_config(a, c, "num_local_experts", 4);
  a.integer("intermediate_size", c.expert_width);
  if (a.reads()) {
    a.require_equal("experts_per_token", c.experts_per_token,
                    "it must be equal to 'num_experts_per_tok'");
    a.fields().unused("initial_context_length");
    quantization(a.fields());
  }
  c.attention_sinks = true;
  c.activation = ActivationKind::swiglu_clamped;
  c.expert_bias = true;
}

static constexpr TensorRow gpt_oss_rows[] = {
    {"blocks.#.attention_sinks.weight", "model.layers.#.self_attn.sinks"},
    {"blocks.#.router.weight", "model.layers.#.mlp.router.weight"},
    {"blocks.#.router.bias", "model.layers.#.mlp.router.bias"},
    {"blocks.#.experts.@.ffn_in.bias", "model.layers.#.mlp.experts.gate_up_proj_bias",
     TensorRows::all, TensorOrder::gate_up_pairs},
    {"blocks.#.experts.@.ffn_out.bias", "model.layers.#.mlp.experts.down_proj_bias"},
};

static constexpr TensorRow whole_rows[] = {
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.mlp.experts.gate_up_proj", TensorRows::all,
     TensorOrder::gate_up_pairs, TensorStorage::columns},
    {"blocks.#.experts.@.ffn_out.weight", "model.layers.#.mlp.experts.down_proj", TensorRows::all,
     TensorOrder::same, TensorStorage::columns},
};

static constexpr TensorRow mxfp4_rows[] = {
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.mlp.experts.gate_up_proj_blocks",
     TensorRows::all, TensorOrder::gate_up_pairs, TensorStorage::mxfp4,
     "model.layers.#.mlp.experts.gate_up_proj_scales"},
    {"blocks.#.experts.@.ffn_out.weight", "model.layers.#.mlp.experts.down_proj_blocks",
     TensorRows::all, TensorOrder::same, TensorStorage::mxfp4,
     "model.layers.#.mlp.experts.down_proj_scales"},
};

static const RegisteredFamily gpt_oss(
    {.model_type = "gpt_oss",
     .architecture = "GptOssForCausalLM",
     .config = gpt_oss_config,
     .tensors = {joined({trunk_rows, qkv_rows, norm_before_rows, gpt_oss_rows, whole_rows}),
                 joined({trunk_rows, qkv_rows, norm_before_rows, gpt_oss_rows, mxfp4_rows})}});

}  // namespace trireme
