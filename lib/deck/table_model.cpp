// What is trained: the model and its adapters.
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

}  // namespace

KeySection model_section() {
  using M = ModelConfig;
  const auto row = rows_of(&Deck::model);
  return {
      .name = "model",
      .meaning = "The transformer.",
      .keys = {
          row("preset", &M::preset,
              "a known shape that the keys below start from, or that of a checkpoint or run "
              "directory DIR; empty: GPT-2's smallest")
              .of(presets())
              .or_path_behind(std::string(checkpoint_preset)),
          row("layers", &M::layers, "transformer blocks").in(1, 10000),
          row("width", &M::width, "channels of the residual stream").in(1, row_most),
          row("heads", &M::heads, "query heads").in(1, row_most),
          row("kv_heads", &M::kv_heads, "key and value heads; must divide heads")
              .in(1, row_most)
              .automatically("heads"),
          row("head_dim", &M::head_dim, "channels of a head; even for rotary positions")
              .in(1, row_most)
              .automatically("width/heads, which must be whole"),
          row("ffn_width", &M::ffn_width, "channels inside the MLP")
              .in(1, row_most)
              .automatically(
                  "8/3*width for swiglu and geglu, up to a multiple of 64; else 4*width"),
          row("vocab", &M::vocab, "rows of the embedding; at least the token file's vocabulary")
              .in(1, int32_most)
              .automatically("the token file's"),
          row("context", &M::context, "length of a sample").in(1, int32_most).in_units("tokens"),
          row("max_context", &M::max_context,
              "positions of the model, where samples are shorter: rows of a learned table, and "
              "what an export names; no fewer than context")
              .in(1, int32_most)
              .in_units("tokens")
              .automatically("context; with a preset from:DIR what that model has"),
          row("norm", &M::norm, "layer norm or RMS norm"),
          row("norm_place", &M::norm_place,
              "where a block's norms stand: before attention and the MLP, after them, on what they "
              "add to the residual stream (OLMo 2), or both"),
          row("norm_eps", &M::norm_eps, "added to the variance in a norm").inside(0, 1).in_f32(),
          row("bias", &M::bias, "biases in projections and layer norms"),
          row("qkv_bias", &M::qkv_bias,
              "a bias in the product to queries, keys and values (Qwen2); bias = true has it "
              "anyway"),
          row("qk_norm", &M::qk_norm, "RMS norm of queries and keys, before positions"),
          row("qk_norm_over", &M::qk_norm_over,
              "what that norm takes together: the channels of a head, with one weight for all "
              "heads (Qwen3), or those of all heads, each with its own (OLMoE)"),
          row("window", &M::window,
              "tokens that attention sees, up to a token's own (sliding window: Beltagy et al. "
              "2020; Mistral); 0: all before it")
              .in(0, int32_most)
              .in_units("tokens"),
          row("window_layers", &M::window_layers,
              "blocks that have the window, the others see all; the first block is 0; []: all "
              "blocks")
              .in(0, 9999),
          row("attention_scale", &M::attention_scale,
              "what products of queries and keys are multiplied with")
              .above(0, 1e6)
              .automatically("1/sqrt(head_dim)"),
          row("attention_softcap", &M::attention_softcap,
              "a soft cap c: scores s become c tanh(s / c) (Gemma 2); 0: none. On a GPU cuDNN does "
              "not compute such attention, kernels of Trireme's own do")
              .in(0, 1e6)
              .in_f32(),
          row("logit_softcap", &M::logit_softcap,
              "the same of the head's logits (Gemma 2); 0: none")
              .in(0, 1e6)
              .in_f32(),
          row("attention_sinks", &M::attention_sinks,
              "of each query head a learnt logit joins those of the keys in softmax, and its share "
              "is dropped (gpt-oss); begins at 0, has no weight decay"),
          row("activation", &M::activation, "pointwise function of the MLP"),
          row("experts", &M::experts,
              "MLPs of a block, of which a router chooses some for each token; needs activation = "
              "\"swiglu\"; they have no biases. 0: one MLP for all")
              .in(0, 65536),
          row("experts_per_token", &M::experts_per_token,
              "experts that the router chooses for a token, where model.experts is given")
              .in(0, 65536),
          row("expert_width", &M::expert_width, "channels inside an expert")
              .in(1, row_most)
              .automatically("ffn_width"),
          row("shared_expert_width", &M::shared_expert_width,
              "channels of an expert that every token uses as well; 0: there is none")
              .in(0, row_most),
          row("shared_expert_gate", &M::shared_expert_gate,
              "the shared expert is weighed by a sigmoid of its own (Qwen2-MoE)"),
          row("router", &M::router,
              "the scores of a token's experts: softmax over all of them, or a sigmoid each with a "
              "bias that chooses and does not weigh (DeepSeek-V3)"),
          row("norm_topk", &M::norm_topk,
              "the weights of a token's experts are divided by their sum"),
          row("dense_layers", &M::dense_layers,
              "blocks with one MLP, of ffn_width, all the same; the first block is 0")
              .in(0, 9999),
          row("positions", &M::positions,
              "a table added to the embedding, or rotation of queries and keys"),
          row("rope_theta", &M::rope_theta, "base of the rotary frequencies").above(0, 1e12),
          row("window_rope_theta", &M::window_rope_theta,
              "base of blocks with a window, whose frequencies are not scaled (Gemma 3)")
              .above(0, 1e12)
              .automatically("as all other blocks"),
          row("rope_scaling", &M::rope_scaling,
              "rotary frequencies for a longer context than the original: as they are, all "
              "divided by rope_factor (Chen et al. 2023), or low ones alone (Llama 3.1; YaRN, Peng "
              "et al. 2023)"),
          row("rope_factor", &M::rope_factor, "what scaled rotary frequencies are divided by")
              .in(1, 1e6),
          row("rope_low_freq_factor", &M::rope_low_freq_factor,
              "llama3: up to so many turns in the original context, division is whole")
              .above(0, 1e6),
          row("rope_high_freq_factor", &M::rope_high_freq_factor,
              "llama3: from so many turns in the original context on, there is none")
              .above(0, 1e6),
          row("rope_original_context", &M::rope_original_context,
              "llama3, yarn: context before scaling")
              .in(1, int32_most)
              .in_units("tokens"),
          row("rope_beta_fast", &M::rope_beta_fast,
              "yarn: from so many turns in the original context on, there is no division")
              .above(0, 1e6),
          row("rope_beta_slow", &M::rope_beta_slow,
              "yarn: up to so many turns in the original context, division is whole")
              .above(0, 1e6),
          row("rope_truncate", &M::rope_truncate,
              "yarn: the first and last pair of channels between the two are rounded outwards"),
          row("rope_attention_factor", &M::rope_attention_factor,
              "yarn: what cos and sin are multiplied with")
              .above(0, 1e6)
              .automatically("0.1 ln(rope_factor) + 1"),
          row("scale_embedding", &M::scale_embedding,
              "rows of the embedding are multiplied with sqrt(width), rounded to the compute type "
              "(Gemma)"),
          row("tied", &M::tied, "embedding and head share one table"),
          row("dropout", &M::dropout, "probability on residual branches and the embedding")
              .below(0, 1)
              .in_f32(),
          row("recompute", &M::recompute, "what backward computes again to save memory"),
          row("offload", &M::offload,
              "what waits for its backward in the host's memory: nothing, or the inputs of blocks, "
              "which recompute = \"block\" keeps; without effect on a machine whose memory is the "
              "host's"),
          row("chunk_tokens", &M::chunk_tokens,
              "what blocks take of a microbatch at a time, but for attention and mixtures of "
              "experts: nothing else of them is then kept for backward, which computes each chunk "
              "again; 0: all of it")
              .in(0, int32_most)
              .in_units("tokens")
              .automatically_where_absent(
                  "0 where a rank has up to 8192 tokens of a sample, else 4096, or the next "
                  "multiple of run.exact_chunk with run.exactness = \"invariant\""),
          row("init_from", &M::init_from,
              "checkpoint whose weights start the run at step 0 (fine-tuning); empty: none")
              .as(path),
      }};
}

KeySection adapter_section() {
  using A = AdapterConfig;
  const auto reach = [](auto& deck, std::size_t) -> auto& {
    return deck.model.adapter;
  };
  const RowMaker<Deck, decltype(reach)> row(reach);
  return {
      .name = "adapter",
      .meaning =
          "Low-rank adapters beside frozen weights, which alone are trained and saved (LoRA: Hu "
          "et al. 2021).",
      .keys = {
          row("rank", &A::rank, "rank of an adapter; 0: there are none, the whole model trains")
              .in(0, 65536),
          row("alpha", &A::alpha, "what adapters add is multiplied with alpha / rank")
              .above(0, 1e9)
              .automatically("twice the rank"),
          row("rank_stabilized", &A::rank_stabilized,
              "it is multiplied with alpha / sqrt(rank) (rsLoRA: Kalajdzievski 2023)"),
          row("dropout", &A::dropout, "probability, of an adapter's input").below(0, 1).in_f32(),
          row("base", &A::base,
              "how the weights of blocks' products are kept that adapters stand beside: as "
              "precision.compute says, or in bf16, or in 4 bits (NF4: Dettmers et al. 2023), and "
              "widened for each use; embeddings, norms, biases, routers and heads are as ever"),
          row("patterns", &A::patterns,
              "products of blocks that get one, by name (* and ?): qkv.q, qkv.k, qkv.v, "
              "projection, ffn_in.gate, ffn_in.up, ffn_out behind blocks.0.; with learned "
              "positions qkv is one, with gelu ffn_in; routers and experts have none"),
      }};
}

}  // namespace trireme
