// GLM-4: norms before and after attention and the MLP, biases of queries, keys and values, packed
// gate and up projections, and rotary positions of half of each head.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void glm4_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 131072, .kv_heads = 2, .head_dim = 128, .norm_eps = 1.5625e-7});
  a.flag("attention_bias", c.qkv_bias, true);
  a.require_equal("mlp_bias", false, "biases of the MLP are not supported for this type of model");
  silu_config(a);
  rope_config(a, c, {.rotary_fraction = 0.5});
  no_window_config(a, c);
  c.norm_place = NormPlace::both;
}

static constexpr TensorRow glm4_rows[] = {
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.q_proj.weight", TensorRows::queries,
     TensorOrder::rotary_pairs},
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.k_proj.weight", TensorRows::keys,
     TensorOrder::rotary_pairs},
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.v_proj.weight", TensorRows::values},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.q_proj.bias", TensorRows::queries,
     TensorOrder::rotary_pairs},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.k_proj.bias", TensorRows::keys,
     TensorOrder::rotary_pairs},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.v_proj.bias", TensorRows::values},
    {"blocks.#.attention_norm.weight", "model.layers.#.input_layernorm.weight"},
    {"blocks.#.attention_out_norm.weight", "model.layers.#.post_self_attn_layernorm.weight"},
    {"blocks.#.ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
    {"blocks.#.ffn_out_norm.weight", "model.layers.#.post_mlp_layernorm.weight"},
};

static const RegisteredFamily glm4({.model_type = "glm4",
                                    .architecture = "Glm4ForCausalLM",
                                    .config = glm4_config,
                                    .tensors = {
                                        joined({trunk_rows, glm4_rows, packed_gate_up_rows})}});

}  // namespace trireme
