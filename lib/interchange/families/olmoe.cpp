// OLMoE: experts in all layers, and norms over all query and all key channels.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/mixture.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void olmoe_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 4096, .norm_eps = 1e-5, .fixed_head_dim = true});
  no_bias(a);
  a.note("attention_bias", false);
  silu_config(a);
  rope_config(a, c);
  no_window_config(a, c);
  experts_config(a, c, "num_experts", 8);
  a.flag("norm_topk_prob", c.norm_topk, false);
  a.integer("intermediate_size", c.expert_width);
  a.constant("clip_qkv", nullptr, "clipping of queries, keys and values is not supported");
  c.qk_norm = true;
  c.qk_norm_over = QkNormOver::width;
}

static const RegisteredFamily olmoe(
    {.model_type = "olmoe",
     .architecture = "OlmoeForCausalLM",
     .config = olmoe_config,
     .tensors = {
         joined({trunk_rows, qkv_rows, qk_norm_rows, norm_before_rows, router_rows, expert_rows}),
         joined({trunk_rows, qkv_rows, qk_norm_rows, norm_before_rows, router_rows,
                 experts_together_rows})}});

}  // namespace trireme
