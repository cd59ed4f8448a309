// Qwen 3 with experts.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/mixture.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void qwen3_moe_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 32768, .kv_heads = 4});
  no_bias(a);
  a.note("attention_bias", false);
  silu_config(a);
  rope_config(a, c);
  max_window_layers_config(a, c);
  window_config(a, c, {.otherwise = 4096, .switched = true});
  experts_config(a, c, "num_experts", 8);
  a.flag("norm_topk_prob", c.norm_topk, false);
  dense_layers_config(a, c);
  c.qk_norm = true;
}

static const RegisteredFamily qwen3_moe(
    {.model_type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .config = qwen3_moe_config,
     .tensors = {joined({trunk_rows, qkv_rows, qk_norm_rows, gate_up_rows, norm_before_rows,
                         router_rows, expert_rows}),
                 joined({trunk_rows, qkv_rows, qk_norm_rows, gate_up_rows, norm_before_rows,
                         router_rows, experts_together_rows})}});

}  // namespace trireme
