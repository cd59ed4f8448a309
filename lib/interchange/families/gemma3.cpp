// The text models of Gemma 3: norms of queries and keys, and a window in all but every sixth layer.
#include "lib/interchange/families/gemma.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void gemma3_config(ConfigArchive& a, ModelConfig& c) {
  gemma_config(a, c, 131072, 0);
  a.constant("attn_logit_softcapping", nullptr,
             "the Gemma 3 class of transformers does not use it");
  const auto each = a.reads() ? a.fields().integer("sliding_window_pattern", 6) : 6;
  window_config(a, c, {.otherwise = 4096, .by_layer = true, .layers = all_but_each(each, c)});
  rope_by_layer_config(a, c, {.theta = 1e6}, "rope_local_base_freq", 10000);
  c.qk_norm = true;
}

static const RegisteredFamily gemma3({.model_type = "gemma3_text",
                                      .architecture = "Gemma3ForCausalLM",
                                      .config = gemma3_config,
                                      .tensors = {gemma_rows()}});

}  // namespace trireme
