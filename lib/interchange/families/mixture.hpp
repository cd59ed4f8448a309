#pragma once
// Mixtures of experts in config.json and in tensors.
#include <cstdint>

#include "lib/interchange/family.hpp"

namespace trireme {

// Reads or writes the number of experts, whose member the family calls `key`, and the number of
// experts per token, which is `per_token` if the file does not contain it.
void experts_config(ConfigArchive&, ModelConfig&, const char* key, std::int64_t per_token);
// Reads or writes moe_intermediate_size, and which layers have an ordinary MLP.
void dense_layers_config(ConfigArchive&, ModelConfig&);

inline constexpr TensorRow router_rows[] = {
    {"blocks.#.router.weight", "model.layers.#.mlp.gate.weight"},
};

// Each expert has tensors of its own.
inline constexpr TensorRow expert_rows[] = {
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.mlp.experts.@.gate_proj.weight",
     TensorRows::gate},
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.mlp.experts.@.up_proj.weight",
     TensorRows::up},
    {"blocks.#.experts.@.ffn_out.weight", "model.layers.#.mlp.experts.@.down_proj.weight"},
};

// One tensor for all experts of a layer, as transformers 5 has them in memory.
inline constexpr TensorRow experts_together_rows[] = {
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.mlp.experts.gate_up_proj"},
    {"blocks.#.experts.@.ffn_out.weight", "model.layers.#.mlp.experts.down_proj"},
};

}  // namespace trireme
