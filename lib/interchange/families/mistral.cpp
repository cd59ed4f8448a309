// Mistral: Llama without biases and with a window in all layers.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void mistral_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 131072, .kv_heads = 8});
  no_bias(a);
  silu_config(a);
  rope_config(a, c);
  window_config(a, c, {.otherwise = 4096});
}

static const RegisteredFamily mistral({.model_type = "mistral",
                                       .architecture = "MistralForCausalLM",
                                       .config = mistral_config,
                                       .tensors = {joined({trunk_rows, qkv_rows, gate_up_rows,
                                                           norm_before_rows})},
                                       .rank = 1});

}  // namespace trireme
