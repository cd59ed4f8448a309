// OLMo 2: norms after attention and the MLP, and norms over all query and all key channels.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void olmo2_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 2048, .norm_eps = 1e-5});
  no_bias(a);
  a.note("attention_bias", false);
  silu_config(a);
  rope_config(a, c);
  no_window_config(a, c);
  c.norm_place = NormPlace::after;
  c.qk_norm = true;
  c.qk_norm_over = QkNormOver::width;
}

static const RegisteredFamily olmo2({.model_type = "olmo2",
                                     .architecture = "Olmo2ForCausalLM",
                                     .config = olmo2_config,
                                     .tensors = {joined({trunk_rows, qkv_rows, qk_norm_rows,
                                                         gate_up_rows, norm_after_rows})}});

}  // namespace trireme
