// Qwen 2 and 2.5: biases of queries, keys and values.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void qwen2_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 32768, .kv_heads = 32});
  no_bias(a);
  silu_config(a);
  rope_config(a, c);
  const auto layers = max_window_layers_config(a, c);
  window_config(a, c, {.otherwise = 4096, .switched = true, .by_layer = true, .layers = layers});
  c.qkv_bias = true;
}

static const RegisteredFamily qwen2({.model_type = "qwen2",
                                     .architecture = "Qwen2ForCausalLM",
                                     .config = qwen2_config,
                                     .tensors = {joined({trunk_rows, qkv_rows, gate_up_rows,
                                                         norm_before_rows})}});

}  // namespace trireme
