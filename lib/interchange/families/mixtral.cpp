// Mixtral: Mistral with experts in all layers.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/mixture.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void mixtral_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 131072, .kv_heads = 8, .norm_eps = 1e-5});
  no_bias(a);
  silu_config(a);
  rope_config(a, c, {.theta = 1e6});
  window_config(a, c, {});
  experts_config(a, c, "num_local_experts", 2);
  a.integer("intermediate_size", c.expert_width);
}

static constexpr TensorRow mixtral_rows[] = {
    {"blocks.#.router.weight", "model.layers.#.block_sparse_moe.gate.weight"},
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.block_sparse_moe.experts.@.w1.weight",
     TensorRows::gate},
    {"blocks.#.experts.@.ffn_in.weight", "model.layers.#.block_sparse_moe.experts.@.w3.weight",
     TensorRows::up},
    {"blocks.#.experts.@.ffn_out.weight", "model.layers.#.block_sparse_moe.experts.@.w2.weight"},
};

static const RegisteredFamily mixtral(
    {.model_type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .config = mixtral_config,
     .tensors = {
         joined({trunk_rows, qkv_rows, norm_before_rows, mixtral_rows}),
         joined({trunk_rows, qkv_rows, norm_before_rows, router_rows, experts_together_rows})}});

}  // namespace trireme
