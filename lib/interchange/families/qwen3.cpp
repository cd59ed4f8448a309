// Qwen 3: norms of queries and keys.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void qwen3_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 32768, .kv_heads = 32, .head_dim = 128});
  no_bias(a);
  a.note("attention_bias", false);
  silu_config(a);
  rope_config(a, c);
  const auto layers = max_window_layers_config(a, c);
  window_config(a, c, {.otherwise = 4096, .switched = true, .by_layer = true, .layers = layers});
  c.qk_norm = true;
}

static const RegisteredFamily qwen3({.model_type = "qwen3",
                                     .architecture = "Qwen3ForCausalLM",
                                     .config = qwen3_config,
                                     .tensors = {joined({trunk_rows, qkv_rows, qk_norm_rows,
                                                         gate_up_rows, norm_before_rows})}});

}  // namespace trireme
