#include "lib/interchange/families/decoder.hpp"

#include "lib/base/error.hpp"

namespace trireme {

static void read_biases(const ConfigFields& f, ModelConfig& c) {
  c.bias = f.flag("attention_bias", false);
  const bool mlp = f.flag("mlp_bias", false);
  require(c.bias == mlp,
          "'attention_bias' = {} and 'mlp_bias' = {}: only equal values are supported", c.bias,
          mlp);
}

void decoder_config(ConfigArchive& a, ModelConfig& c, const DecoderDefaults& d) {
  if (a.reads()) {
    c.norm = NormKind::rms;
    c.bias = false;
    c.activation = ActivationKind::swiglu;
    c.positions = Positions::rotary;
  }
  a.integer("num_hidden_layers", c.layers);
  a.integer("hidden_size", c.width);
  a.integer("num_attention_heads", c.heads);
  a.integer("num_key_value_heads", c.kv_heads, d.kv_heads, c.heads);
  if (d.fixed_head_dim) {
    const auto dim = c.width / c.heads;
    a.constant("head_dim", dim,
               "versions of transformers differ in whether models of this type read it. Only "
               "'hidden_size' / 'num_attention_heads' is supported");
  } else {
    a.integer("head_dim", c.head_dim, d.head_dim, 0);
  }
  a.integer("intermediate_size", c.ffn_width);
  a.integer("vocab_size", c.vocab);
  a.positions("max_position_embeddings", c, d.context);
  a.real("rms_norm_eps", c.norm_eps, d.norm_eps);
  a.flag("tie_word_embeddings", c.tied, d.tied);
  a.note("attention_dropout", 0.0);
  if (a.reads() && (d.heads_divide_width || (c.head_dim == 0 && !d.fixed_head_dim)))
    require(c.width % c.heads == 0, "'num_attention_heads' = {} does not divide 'hidden_size' = {}",
            c.heads, c.width);
  if (d.biases && a.reads()) read_biases(a.fields(), c);
  if (d.biases)
    for (const auto* key : {"attention_bias", "mlp_bias"}) a.note(key, c.bias);
  for (const auto* key : {"rope_interleaved", "use_mrope"})
    a.require_equal(key, false,
                    "only rotary positions that rotate the two halves of a head are supported");
}

void silu_config(ConfigArchive& a) {
  if (a.reads()) {
    const auto activation = a.fields().text("hidden_act", "silu");
    a.fields().refuse_if(activation != "silu" && activation != "swish", "hidden_act",
                         "only SiLU is supported for this type of model");
  }
  a.note("hidden_act", "silu");
}

void no_bias(ConfigArchive& a) {
  for (const auto* key : {"attention_bias", "mlp_bias"})
    a.require_equal(key, false, "biases are not supported for this type of model");
}

}  // namespace trireme
