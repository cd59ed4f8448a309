// Granite 3: Llama with factors of embeddings, branches, attention scores and logits.
#include <cmath>

#include "lib/interchange/families/decoder.hpp"
#include "lib/interchange/families/rope.hpp"
#include "lib/interchange/families/windows.hpp"

namespace trireme {

static void granite_config(ConfigArchive& a, ModelConfig& c) {
  decoder_config(a, c, {.context = 2048, .biases = true});
  silu_config(a);
  rope_config(a, c);
  no_window_config(a, c);
  a.factor("embedding_multiplier", c.embedding_scale);
  a.factor("residual_multiplier", c.residual_scale);
  // In a deck, 0 means 1 / sqrt(head_dim).
  if (!a.reads() && c.attention_scale == 0)
    c.attention_scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  a.factor("attention_multiplier", c.attention_scale);
  // The class divides logits by its factor.
  double divisor = 1 / c.logit_scale;
  a.factor("logits_scaling", divisor);
  if (a.reads()) c.logit_scale = 1 / divisor;
}

static const RegisteredFamily granite({.model_type = "granite",
                                       .architecture = "GraniteForCausalLM",
                                       .config = granite_config,
                                       .tensors = {joined({trunk_rows, qkv_rows, gate_up_rows,
                                                           norm_before_rows})}});

}  // namespace trireme
