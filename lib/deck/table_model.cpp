// Keys for what is trained: the model and its adapters.
#include "lib/deck/preset.hpp"
#include "lib/deck/sections.hpp"

namespace trireme {

using enum ValueKind;

namespace {

std::vector<std::string> presets() {
  std::vector<std::string> names = {""};
  for (auto name : model_preset_names()) names.emplace_back(name);
  return names;
}

// Access to the model's number of positions, which follows the context unless it is larger.
KeyAccess max_context() {
  return rows_of<Deck>().access(
      [](const Deck& d) -> KeyValue {
        if (d.model.max_context <= d.data.context) return Automatic{};
        return d.model.max_context;
      },
      [](Deck& d, const KeyValue& v) {
        const auto* const given = std::get_if<std::int64_t>(&v);
        d.model.max_context = given ? *given : 0;
      });
}

}  // namespace

KeySection model_section() {
  using M = ModelConfig;
  // Keys of this section that do not describe the model are members of other structs.
  const auto row = rows_of(&Deck::model);
  const auto of_deck = rows_of<Deck>();
  const auto of_data = rows_of(&Deck::data);
  const auto of_train = rows_of(&Deck::train);
  return {
      .name = "model",
      .meaning = "The transformer model.",
      .keys = {
          of_deck(
              "preset", &Deck::preset,
              "Model whose shape sets the defaults of the other keys in this section. \"from:DIR\" "
              "is the model in the checkpoint or run directory DIR. \"\" means the smallest GPT-2")
              .of(presets())
              .or_path_behind(std::string(checkpoint_preset))
              .for_run(),
          row("layers", &M::layers, "Number of transformer blocks").in(1, 10000),
          row("width", &M::width, "Number of channels of the residual stream (hidden size)")
              .in(1, row_most),
          row("heads", &M::heads, "Number of query heads").in(1, row_most),
          row("kv_heads", &M::kv_heads,
              "Number of key-value heads. Must divide model.heads. A number below model.heads "
              "gives grouped-query attention")
              .in(1, row_most)
              .automatically("equal to model.heads"),
          row("head_dim", &M::head_dim,
              "Channels per attention head. Must be even if positions = \"rotary\"")
              .in(1, row_most)
              .automatically("width / heads, which must be a whole number"),
          row("ffn_width", &M::ffn_width, "Number of hidden channels of the MLP")
              .in(1, row_most)
              .automatically(
                  "4 * width, or 8/3 * width rounded up to a multiple of 64 if the MLP is gated"),
          row("vocab", &M::vocab,
              "Vocabulary size of the model (rows of the embedding). Must be at least the "
              "vocabulary size of the token files")
              .in(1, int32_most)
              .automatically("the vocabulary size of the token files"),
          of_data("context", &DataConfig::context,
                  "Number of tokens per training sample (sequence length)")
              .in(1, int32_most)
              .in_units("tokens"),
          KeyRow(
              "max_context", ValueKind::integer, max_context(),
              "Maximum context length of the model. Set this key if training samples are shorter. "
              "It determines the number of rows of a learned position table, and the context "
              "length of exported models. Must be at least model.context")
              .in(1, int32_most)
              .in_units("tokens")
              .automatically(
                  "model.context, or the maximum of the original model if preset = \"from:DIR\""),
          row("norm", &M::norm, "Type of normalization: layer norm or RMS norm"),
          row("norm_place", &M::norm_place,
              "Position of the norms in each block. before: before attention and the MLP. after: "
              "on the outputs of attention and the MLP, before the residual addition (OLMo 2). "
              "both: before and after"),
          row("norm_eps", &M::norm_eps,
              "Small number added to the variance in norms, for numerical stability")
              .inside(0, 1)
              .in_f32(),
          row("bias", &M::bias, "Whether projections and layer norms have biases"),
          row("qkv_bias", &M::qkv_bias,
              "Whether the query, key and value projections have biases (Qwen2). If bias = true, "
              "they always have biases"),
          row("qk_norm", &M::qk_norm,
              "Whether to apply RMS norm to queries and keys, before rotary positions"),
          row("qk_norm_over", &M::qk_norm_over,
              "Channels that qk_norm normalizes together. head: those of one head, with one set of "
              "weights for all heads (Qwen3). width: those of all heads, with a weight for each "
              "channel (OLMoE)"),
          row("window", &M::window,
              "Length of the sliding attention window (Beltagy et al. 2020; Mistral). Each token "
              "attends to itself and to the preceding window - 1 tokens. 0 disables the window")
              .in(0, int32_most)
              .in_units("tokens"),
          row("window_layers", &M::window_layers,
              "Indices, from 0, of the blocks that use the sliding window. All other blocks attend "
              "to the whole context. [] means that all blocks use the window")
              .in(0, 9999),
          row("attention_scale", &M::attention_scale,
              "Factor by which attention scores (products of queries and keys) are multiplied")
              .above(0, 1e6)
              .automatically("1/sqrt(head_dim)"),
          row("attention_softcap", &M::attention_softcap,
              "Soft cap c of attention scores: each score s becomes c * tanh(s / c) (Gemma 2). 0 "
              "disables it. On GPUs, attention with a soft cap runs in Trireme's own kernels "
              "instead of cuDNN")
              .in(0, 1e6)
              .in_f32(),
          row("residual_scale", &M::residual_scale,
              "Factor by which the outputs of attention and the MLP are multiplied before the "
              "residual addition (Granite)")
              .above(0, 1e6),
          row("logit_scale", &M::logit_scale,
              "Factor by which output logits are multiplied, before logit_softcap (Granite)")
              .above(0, 1e6),
          row("logit_softcap", &M::logit_softcap,
              "Soft cap c of output logits: each logit s becomes c * tanh(s / c) (Gemma 2). 0 "
              "disables it")
              .in(0, 1e6)
              .in_f32(),
          row("attention_sinks", &M::attention_sinks,
              "Whether each query head has a learned extra logit in its attention softmax. The "
              "probability of this logit is discarded (gpt-oss). It starts at 0 and has no weight "
              "decay"),
          row("activation", &M::activation,
              "Activation function of the MLP. All except gelu are gated. swiglu_clamped is the "
              "clamped SwiGLU of gpt-oss"),
          row("experts", &M::experts,
              "Number of experts per block (mixture of experts). Experts require a gated "
              "activation. 0 means one MLP for all tokens")
              .in(0, 65536),
          row("experts_per_token", &M::experts_per_token,
              "Number of experts that the router chooses for each token. Required if model.experts "
              "is set")
              .in(0, 65536),
          row("expert_width", &M::expert_width, "Number of hidden channels of each expert")
              .in(1, row_most)
              .automatically("ffn_width"),
          row("shared_expert_width", &M::shared_expert_width,
              "Number of hidden channels of the shared expert, which processes every token in "
              "addition to the experts chosen by the router. 0 means no shared expert")
              .in(0, row_most),
          row("shared_expert_gate", &M::shared_expert_gate,
              "Whether the output of the shared expert is multiplied by a learned sigmoid gate "
              "(Qwen2-MoE)"),
          row("expert_bias", &M::expert_bias,
              "Whether the router and both products of each expert have biases (gpt-oss). The "
              "shared expert has none"),
          row("router", &M::router,
              "How router logits become expert scores. softmax: normalized over all experts. "
              "sigmoid: computed for each expert separately. A bias then affects which experts are "
              "chosen, but not their weights (DeepSeek-V3)"),
          row("norm_topk", &M::norm_topk,
              "Whether to normalize the weights of each token's chosen experts so that they sum to "
              "1"),
          row("dense_layers", &M::dense_layers,
              "Indices, from 0, of the blocks that have one ordinary MLP with ffn_width channels "
              "instead of experts")
              .in(0, 9999),
          row("positions", &M::positions,
              "Position encoding. learned: a table of learned vectors, added to the embedding. "
              "rotary: rotation of queries and keys (RoPE)"),
          row("nope_layers", &M::nope_layers,
              "Indices, from 0, of the blocks that do not rotate queries and keys (NoPE; SmolLM3). "
              "Requires positions = \"rotary\"")
              .in(0, 9999),
          row("rotary_dim", &M::rotary_dim,
              "Number of channels of each head that rotate (GLM-4). Must be even and at most "
              "head_dim. Channel i rotates with channel i + head_dim/2, for i below rotary_dim/2. "
              "The other channels do not rotate")
              .in(2, row_most)
              .automatically("head_dim, so that all channels rotate"),
          row("rope_theta", &M::rope_theta, "Base of the rotary frequencies (RoPE theta)")
              .above(0, 1e12),
          row("window_rope_theta", &M::window_rope_theta,
              "Base of the rotary frequencies in blocks with a sliding window. These frequencies "
              "are not scaled by rope_scaling (Gemma 3)")
              .above(0, 1e12)
              .automatically("same frequencies as all other blocks"),
          row("rope_scaling", &M::rope_scaling,
              "How rotary frequencies are scaled for a longer context than the original one. none: "
              "not at all. linear: all frequencies are divided by rope_factor (Chen et al. 2023). "
              "llama3, yarn: only low frequencies are divided (Llama 3.1; YaRN: Peng et al. 2023)"),
          row("rope_factor", &M::rope_factor,
              "Number by which rope_scaling divides rotary frequencies. It is usually the new "
              "context length divided by the original context length")
              .in(1, 1e6),
          row("rope_low_freq_factor", &M::rope_low_freq_factor,
              "For rope_scaling = \"llama3\": upper limit of low frequencies, as the number of "
              "full rotations in the original context. Frequencies up to this limit are divided by "
              "the full rope_factor")
              .above(0, 1e6),
          row("rope_high_freq_factor", &M::rope_high_freq_factor,
              "For rope_scaling = \"llama3\": lower limit of high frequencies, as the number of "
              "full rotations in the original context. Frequencies from this limit on do not "
              "change")
              .above(0, 1e6),
          row("rope_original_context", &M::rope_original_context,
              "Context length in tokens that the model was trained on before rope_scaling = "
              "\"llama3\" or \"yarn\" extended it")
              .in(1, int32_most)
              .in_units("tokens"),
          row("rope_beta_fast", &M::rope_beta_fast,
              "For rope_scaling = \"yarn\": lower limit of high frequencies, as the number of full "
              "rotations in the original context. Frequencies from this limit on do not change")
              .above(0, 1e6),
          row("rope_beta_slow", &M::rope_beta_slow,
              "For rope_scaling = \"yarn\": upper limit of low frequencies, as the number of full "
              "rotations in the original context. Frequencies up to this limit are divided by the "
              "full rope_factor")
              .above(0, 1e6),
          row("rope_truncate", &M::rope_truncate,
              "For rope_scaling = \"yarn\": whether the limits that rope_beta_fast and "
              "rope_beta_slow set are rounded outward to whole channel pairs"),
          row("rope_attention_factor", &M::rope_attention_factor,
              "For rope_scaling = \"yarn\": factor by which the cosines and sines of the rotation "
              "are multiplied")
              .above(0, 1e6)
              .automatically("0.1 ln(rope_factor) + 1"),
          row("scale_embedding", &M::scale_embedding,
              "Whether to multiply embeddings by sqrt(width), rounded to precision.compute "
              "(Gemma)"),
          row("embedding_scale", &M::embedding_scale,
              "Factor by which embeddings are multiplied (Granite). Requires scale_embedding = "
              "false")
              .above(0, 1e6),
          row("tied", &M::tied,
              "Whether the embedding and the output head share one weight matrix (tied "
              "embeddings)"),
          of_train("dropout", &TrainConfig::dropout,
                   "Dropout probability on the embedding and the residual branches")
              .below(0, 1)
              .in_f32()
              .for_run(),
          of_train(
              "recompute", &TrainConfig::recompute,
              "What the backward pass recomputes to save memory (activation checkpointing). none: "
              "nothing. block: each block, from its stored input")
              .for_run(),
          of_train(
              "offload", &TrainConfig::offload,
              "Tensors that are kept in host memory until the backward pass, to save GPU memory. "
              "none: no tensors. inputs: the block inputs that recompute = \"block\" stores. This "
              "key has no effect on CPU backends")
              .for_run(),
          of_train("chunk_tokens", &TrainConfig::chunk_tokens,
                   "Number of tokens per chunk. A block processes one chunk at a time, except in "
                   "attention and experts, so that long samples need less memory. The backward "
                   "pass recomputes each chunk. 0 means no chunks. See docs/long-contexts.md")
              .in(0, int32_most)
              .in_units("tokens")
              .automatically_where_absent("0 if a rank has at most 8192 tokens of a sample, "
                                          "otherwise 4096")
              .for_run(),
          of_deck(
              "init_from", &Deck::init_from,
              "Checkpoint whose weights the run starts with at step 0 (fine-tuning). \"\" starts "
              "with random weights")
              .as(path)
              .for_run(),
      }};
}

KeySection adapter_section() {
  using A = AdapterConfig;
  const auto row = rows_of(&Deck::adapter);
  return {
      .name = "adapter",
      .meaning =
          "Low-rank adapters (LoRA: Hu et al. 2021). Only the adapters and the parameters in "
          "also_train are trained and saved; all other weights are frozen.",
      .keys = {
          row("rank", &A::rank,
              "Rank of the adapter matrices. 0 means no adapters: the whole model is trained")
              .in(0, 65536),
          row("method", &A::method,
              "lora: adapters add a low-rank matrix to each weight matrix. dora: adapters also "
              "train the norm of each row of the sum (DoRA: Liu et al. 2024)"),
          row("alpha", &A::alpha,
              "Strength of the adapters: their output is multiplied by alpha / rank")
              .above(0, 1e9)
              .automatically("twice the rank"),
          row("rank_stabilized", &A::rank_stabilized,
              "Whether to multiply adapter outputs by alpha / sqrt(rank) instead of alpha / rank "
              "(rsLoRA: Kalajdzievski 2023)"),
          row("dropout", &A::dropout, "Dropout probability for the inputs of adapters")
              .below(0, 1)
              .in_f32(),
          row("base", &A::base,
              "Storage type of the frozen weight matrices in blocks. compute: as in "
              "precision.compute. bf16: 2 bytes per weight. nf4: about 4 bits per weight (QLoRA: "
              "Dettmers et al. 2023). Weights are converted for each use. Embeddings, norms, "
              "biases, routers and the head are not affected"),
          row("patterns", &A::patterns,
              "Names of the matrix products that get an adapter, with wildcards * and ?, such as "
              "\"*.qkv.q\" or \"blocks.0.*\". A pattern selects experts, the embedding and the "
              "head only if it names them. See docs/adapters.md"),
          row("also_train", &A::also_train,
              "Names of base-model parameters to train without low-rank matrices, with wildcards * "
              "and ? (modules_to_save of PEFT). Names may omit .weight and .bias, for example "
              "\"embedding\", \"head\" and \"*_norm\". Names of transformers such as embed_tokens "
              "and lm_head are accepted"),
          row("b_lr_ratio", &A::b_lr_ratio,
              "Factor on the learning rate of the adapters' matrices b (LoRA+: Hayou et al. 2024, "
              "who recommend 16). 1 is plain LoRA")
              .above(0, 1e6),
      }};
}

KeySection adapter_rank_section() {
  using R = AdapterRank;
  const auto ranks = [](auto& deck) -> auto& {
    return deck.adapter.ranks;
  };
  const auto row = rows_of_entries<Deck>(ranks);
  return repeated<Deck>(
      ranks, "adapter_rank",
      "Sets the rank and alpha of some adapters in place of adapter.rank and adapter.alpha. Write "
      "one [[adapter_rank]] section per rule. If "
      "several rules match a product, the last one applies. All products of one weight, such as "
      "qkv.q, qkv.k and qkv.v, need the same rank and alpha.",
      {
          row("pattern", &R::pattern,
              "Names of products, as in adapter.patterns, with wildcards * and ?")
              .like("\"*.ffn_out\"")
              .needed(),
          row("rank", &R::rank, "Rank of the adapter matrices").like("32").needed().in(1, 65536),
          row("alpha", &R::alpha, "Strength of the adapters, as in adapter.alpha")
              .above(0, 1e9)
              .automatically("adapter.alpha, or twice the rank if that is auto"),
      });
}

}  // namespace trireme
