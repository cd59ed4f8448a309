// GPT-2. Its projections (Conv1D) are [in, out].
#include "lib/base/error.hpp"
#include "lib/interchange/family.hpp"

namespace trireme {

static void gpt2_config(ConfigArchive& a, ModelConfig& c) {
  a.integer("n_layer", c.layers);
  a.integer("n_embd", c.width);
  a.integer("n_head", c.heads);
  a.integer("n_inner", c.ffn_width, 4 * c.width);
  a.integer("vocab_size", c.vocab);
  a.positions("n_positions", c, a.reads() ? a.fields().integer("n_ctx", 1024) : 0);
  a.note("n_ctx", c.max_context);
  a.real("layer_norm_epsilon", c.norm_eps, 1e-5);
  a.flag("tie_word_embeddings", c.tied, true);
  a.note("resid_pdrop", 0.0);
  a.note("embd_pdrop", 0.0);
  a.note("attn_pdrop", 0.0);
  if (a.reads()) {
    const auto activation = a.fields().text("activation_function", "gelu_new");
    a.fields().refuse_if(activation != "gelu_new" && activation != "gelu_pytorch_tanh",
                         "activation_function",
                         "only the tanh approximation of GELU (\"gelu_new\") is supported");
    require(c.width % c.heads == 0, "'n_head' = {} does not divide 'n_embd' = {}", c.heads,
            c.width);
  }
  a.note("activation_function", "gelu_new");
  a.constant("scale_attn_weights", true,
             "only attention that is scaled by 1/sqrt(head dimension) is supported");
  a.require_equal("scale_attn_by_inverse_layer_idx", false,
                  "only attention with the same scale in all blocks is supported");
}

static constexpr TensorRow gpt2_rows[] = {
    {"embedding.weight", "transformer.wte.weight"},
    {"positions.weight", "transformer.wpe.weight"},
    {"blocks.#.attention_norm.weight", "transformer.h.#.ln_1.weight"},
    {"blocks.#.attention_norm.bias", "transformer.h.#.ln_1.bias"},
    {"blocks.#.qkv.weight", "transformer.h.#.attn.c_attn.weight", TensorRows::all,
     TensorOrder::same, TensorStorage::columns},
    {"blocks.#.qkv.bias", "transformer.h.#.attn.c_attn.bias"},
    {"blocks.#.projection.weight", "transformer.h.#.attn.c_proj.weight", TensorRows::all,
     TensorOrder::same, TensorStorage::columns},
    {"blocks.#.projection.bias", "transformer.h.#.attn.c_proj.bias"},
    {"blocks.#.ffn_norm.weight", "transformer.h.#.ln_2.weight"},
    {"blocks.#.ffn_norm.bias", "transformer.h.#.ln_2.bias"},
    {"blocks.#.ffn_in.weight", "transformer.h.#.mlp.c_fc.weight", TensorRows::all,
     TensorOrder::same, TensorStorage::columns},
    {"blocks.#.ffn_in.bias", "transformer.h.#.mlp.c_fc.bias"},
    {"blocks.#.ffn_out.weight", "transformer.h.#.mlp.c_proj.weight", TensorRows::all,
     TensorOrder::same, TensorStorage::columns},
    {"blocks.#.ffn_out.bias", "transformer.h.#.mlp.c_proj.bias"},
    {"final_norm.weight", "transformer.ln_f.weight"},
    {"final_norm.bias", "transformer.ln_f.bias"},
    {"head.weight", "lm_head.weight"},
};

static const RegisteredFamily gpt2({.model_type = "gpt2",
                                    .architecture = "GPT2LMHeadModel",
                                    .config = gpt2_config,
                                    .tensors = {joined({gpt2_rows})},
                                    .prefix = "transformer."});

}  // namespace trireme
