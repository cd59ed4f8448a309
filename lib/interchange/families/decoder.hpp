#pragma once
// Members of config.json and tensors that all families with rotary positions share.
#include <cstdint>

#include "lib/interchange/family.hpp"

namespace trireme {

// Values of members that a file may leave out, and properties of a family's class in transformers.
struct DecoderDefaults {
  std::int64_t context;
  std::int64_t kv_heads = 0;  // 0 means as many as heads
  std::int64_t head_dim = 0;  // 0 means width / heads
  double norm_eps = 1e-6;
  bool tied = false;
  // The class has attention_bias and mlp_bias. Trireme supports only equal values.
  bool biases = false;
  // The class requires that the number of heads divides the width.
  bool heads_divide_width = false;
  // The class ignores head_dim: it is always width / heads.
  bool fixed_head_dim = false;
};

// Reads or writes sizes, biases, the norms' epsilon and tied embeddings. When reading, the function
// also sets RMS norms, rotary positions and SwiGLU.
void decoder_config(ConfigArchive&, ModelConfig&, const DecoderDefaults&);
// Requires the activation SiLU.
void silu_config(ConfigArchive&);
// Requires a model without biases.
void no_bias(ConfigArchive&);

// Embedding, output projections, final norm and head.
inline constexpr TensorRow trunk_rows[] = {
    {"embedding.weight", "model.embed_tokens.weight"},
    {"blocks.#.projection.weight", "model.layers.#.self_attn.o_proj.weight"},
    {"blocks.#.projection.bias", "model.layers.#.self_attn.o_proj.bias"},
    {"blocks.#.ffn_out.weight", "model.layers.#.mlp.down_proj.weight"},
    {"blocks.#.ffn_out.bias", "model.layers.#.mlp.down_proj.bias"},
    {"final_norm.weight", "model.norm.weight"},
    {"head.weight", "lm_head.weight"},
};

// Query, key and value projections in separate tensors.
inline constexpr TensorRow qkv_rows[] = {
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.q_proj.weight", TensorRows::queries},
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.k_proj.weight", TensorRows::keys},
    {"blocks.#.qkv.weight", "model.layers.#.self_attn.v_proj.weight", TensorRows::values},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.q_proj.bias", TensorRows::queries},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.k_proj.bias", TensorRows::keys},
    {"blocks.#.qkv.bias", "model.layers.#.self_attn.v_proj.bias", TensorRows::values},
};

// Gate and up projections in separate tensors.
inline constexpr TensorRow gate_up_rows[] = {
    {"blocks.#.ffn_in.weight", "model.layers.#.mlp.gate_proj.weight", TensorRows::gate},
    {"blocks.#.ffn_in.weight", "model.layers.#.mlp.up_proj.weight", TensorRows::up},
    {"blocks.#.ffn_in.bias", "model.layers.#.mlp.gate_proj.bias", TensorRows::gate},
    {"blocks.#.ffn_in.bias", "model.layers.#.mlp.up_proj.bias", TensorRows::up},
};

// Gate and up projections in one tensor.
inline constexpr TensorRow packed_gate_up_rows[] = {
    {"blocks.#.ffn_in.weight", "model.layers.#.mlp.gate_up_proj.weight"},
};

inline constexpr TensorRow qk_norm_rows[] = {
    {"blocks.#.q_norm.weight", "model.layers.#.self_attn.q_norm.weight"},
    {"blocks.#.k_norm.weight", "model.layers.#.self_attn.k_norm.weight"},
};

inline constexpr TensorRow norm_before_rows[] = {
    {"blocks.#.attention_norm.weight", "model.layers.#.input_layernorm.weight"},
    {"blocks.#.ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
};

inline constexpr TensorRow norm_after_rows[] = {
    {"blocks.#.attention_out_norm.weight", "model.layers.#.post_attention_layernorm.weight"},
    {"blocks.#.ffn_out_norm.weight", "model.layers.#.post_feedforward_layernorm.weight"},
};

}  // namespace trireme
