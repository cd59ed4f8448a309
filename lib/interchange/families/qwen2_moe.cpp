// Qwen 1.5 and 2 with experts: a shared expert with a gate.
#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/mixture.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

// Versions 4 and 5 of transformers apply the window to different layers. A window is read only if
// it has no effect.
static void qwen2_moe_window(ConfigArchive& a, ModelConfig& c) {
  a.note("use_sliding_window", false);
  if (!a.reads()) return;
  window_config(a, c, {.otherwise = 4096, .switched = true});
  if (c.window == 0) return;
  const auto context = a.context().value_or(c.max_context);
  require(context <= c.window,
          "'sliding_window' = {} is smaller than the context of {} tokens, and versions 4 and 5 of "
          "transformers apply the window to different layers. Import the model with --context {}, "
          "so that the window has no effect",
          c.window, context, c.window);
  c.max_context = std::min(c.max_context, c.window);
  c.window = 0;
}

static void qwen2_moe_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 32768, .kv_heads = 16});
  no_bias(a);
  silu_config(a);
  rope_config(a, c);
  qwen2_moe_window(a, c);
  experts_config(a, c, "num_experts", 4);
  a.flag("norm_topk_prob", c.norm_topk, false);
  dense_layers_config(a, c);
  a.integer("shared_expert_intermediate_size", c.shared_expert_width);
  a.flag("qkv_bias", c.qkv_bias, true);
  c.shared_expert_gate = true;
}

static constexpr TensorRow shared_expert_rows[] = {
    {"blocks.#.shared_expert.gate.weight", "model.layers.#.mlp.shared_expert_gate.weight"},
    {"blocks.#.shared_expert.ffn_in.weight", "model.layers.#.mlp.shared_expert.gate_proj.weight",
     TensorRows::gate},
    {"blocks.#.shared_expert.ffn_in.weight", "model.layers.#.mlp.shared_expert.up_proj.weight",
     TensorRows::up},
    {"blocks.#.shared_expert.ffn_out.weight", "model.layers.#.mlp.shared_expert.down_proj.weight"},
};

static const RegisteredFamily qwen2_moe(
    {.model_type = "qwen2_moe",
     .architecture = "Qwen2MoeForCausalLM",
     .config = qwen2_moe_config,
     .tensors = {joined({trunk_rows, qkv_rows, gate_up_rows, norm_before_rows, router_rows,
                         shared_expert_rows, expert_rows}),
                 joined({trunk_rows, qkv_rows, gate_up_rows, norm_before_rows, router_rows,
                         shared_expert_rows, experts_together_rows})}});

}  // namespace trireme
