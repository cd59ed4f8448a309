// OLMo 3: OLMo 2 with windows in some layers, whose rotary positions are not scaled.
#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void olmo3_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 2048, .norm_eps = 1e-5});
  no_bias(a);
  a.note("attention_bias", false);
  silu_config(a);
  window_config(a, c, {.otherwise = 4096, .by_layer = true, .layers = all_but_each(4, c)});
  rope_by_type_config(a, c, 500000);
  c.norm_place = NormPlace::after;
  c.qk_norm = true;
  c.qk_norm_over = QkNormOver::width;
}

static const RegisteredFamily olmo3({.model_type = "olmo3",
                                     .architecture = "Olmo3ForCausalLM",
                                     .config = olmo3_config,
                                     .tensors = {joined({trunk_rows, qkv_rows, qk_norm_rows,
                                                         gate_up_rows, norm_after_rows})}});

}  // namespace trireme
