// Llama 1 to 3.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void llama_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 2048, .biases = true, .heads_divide_width = true});
  silu_config(a);
  rope_config(a, c);
  no_window_config(a, c);
}

// Other families also express plain models, but every program reads Llama's files.
static const RegisteredFamily llama({.model_type = "llama",
                                     .architecture = "LlamaForCausalLM",
                                     .config = llama_config,
                                     .tensors = {joined({trunk_rows, qkv_rows, gate_up_rows,
                                                         norm_before_rows})},
                                     .rank = 0});

}  // namespace trireme
