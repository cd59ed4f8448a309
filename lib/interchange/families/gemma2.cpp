// Gemma 2: caps of scores and logits, and a window in every second layer.
#include "lib/interchange/families/gemma.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void gemma2_config(ConfigArchive& a, ModelConfig& c) {
  gemma_config(a, c, 8192, 30);
  softcap_config(a, "attn_logit_softcapping", c.attention_softcap, 50);
  rope_config(a, c);
  window_config(a, c, {.otherwise = 4096, .by_layer = true, .layers = all_but_each(2, c)});
  if (!a.reads()) return;
  // The larger models of Gemma 2 give the window twice.
  const auto again = a.fields().integer("sliding_window_size", c.window);
  a.fields().refuse_if(again != c.window && c.window > 0, "sliding_window_size",
                       "it differs from 'sliding_window'");
}

static const RegisteredFamily gemma2({.model_type = "gemma2",
                                      .architecture = "Gemma2ForCausalLM",
                                      .config = gemma2_config,
                                      .tensors = {gemma_rows()}});

}  // namespace trireme
