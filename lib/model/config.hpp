#pragma once
// What a model is: the [model] section of a deck. Plain values; 0 means "not decided yet" until
// `completed` has filled it in.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/router_scores.hpp"
#include "lib/base/value_names.hpp"
#include "lib/model/adapter.hpp"
#include "lib/ops/norm_kind.hpp"
#include "lib/ops/qk_norm_over.hpp"
#include "lib/ops/rope_scaling.hpp"

namespace trireme {

enum class ActivationKind : std::uint8_t { gelu, swiglu, geglu };
template <>
inline constexpr auto value_names<ActivationKind> = named<ActivationKind>("gelu", "swiglu",
                                                                          "geglu");
enum class Positions : std::uint8_t { learned, rotary };
template <>
inline constexpr auto value_names<Positions> = named<Positions>("learned", "rotary");
// Norms of a block stand in front of attention and the MLP, behind them, before what they add is
// added, or at both places.
enum class NormPlace : std::uint8_t { before, after, both };
template <>
inline constexpr auto value_names<NormPlace> = named<NormPlace>("before", "after", "both");
// What is kept of a block for its backward: everything, or its input only.
enum class Recompute : std::uint8_t { none, block };
template <>
inline constexpr auto value_names<Recompute> = named<Recompute>("none", "block");

// What waits for its backward in memory of the host: nothing, or the inputs that recompute keeps.
enum class Offload : std::uint8_t { none, inputs };
template <>
inline constexpr auto value_names<Offload> = named<Offload>("none", "inputs");

struct ModelConfig {
  std::string preset;            // name of the shape that the other values started from, or empty
  std::int64_t layers = 12;      // transformer blocks
  std::int64_t width = 768;      // channels of the residual stream
  std::int64_t heads = 12;       // query heads
  std::int64_t kv_heads = 0;     // key/value heads; 0: as many as heads
  std::int64_t head_dim = 0;     // channels of a head; 0: width / heads
  std::int64_t ffn_width = 0;    // channels of the MLP; 0: 8/3*width (swiglu), else 4*width
  std::int64_t vocab = 0;        // rows of the embedding; 0: the caller takes the token file's
  std::int64_t context = 1024;   // tokens of a sample
  std::int64_t max_context = 0;  // positions of the model if more than a sample has; 0: as many
  NormKind norm = NormKind::layer;
  NormPlace norm_place = NormPlace::before;
  double norm_eps = 1e-5;
  bool bias = true;       // biases in the projections and in layer norm
  bool qkv_bias = false;  // a bias in the product to queries, keys and values; bias has it anyway
  bool qk_norm = false;   // RMS norm of queries and keys, before positions
  QkNormOver qk_norm_over = QkNormOver::head;
  std::int64_t window = 0;  // tokens that a token attends to, up to its own; 0: all before it
  std::vector<std::int64_t> window_layers;  // blocks that have it, from 0; none named: all
  double attention_scale = 0;    // what products of queries and keys times; 0: 1/sqrt(head_dim)
  double attention_softcap = 0;  // c: scores s become c tanh(s / c); 0: they stay
  double logit_softcap = 0;      // the same of logits
  bool attention_sinks = false;  // a learnt logit a query head, in softmax beside those of keys
  ActivationKind activation = ActivationKind::gelu;
  std::int64_t experts = 0;  // MLPs of a block, of which a router chooses; 0: one, for all
  std::int64_t experts_per_token = 0;    // that the router chooses for a token
  std::int64_t expert_width = 0;         // channels of one; 0: ffn_width
  std::int64_t shared_expert_width = 0;  // channels of one that every token uses as well; 0: none
  bool shared_expert_gate = false;       // it is weighed by a sigmoid of its own
  RouterScores router = RouterScores::softmax;  // sigmoid has a bias that chooses, but weighs not
  bool norm_topk = true;                        // the weights of a token's experts add up to 1
  std::vector<std::int64_t> dense_layers;       // blocks that have one MLP all the same, from 0
  Positions positions = Positions::learned;
  double rope_theta = 10000;     // base of the rotary frequencies
  double window_rope_theta = 0;  // of blocks with a window, unscaled; 0: as all others
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1;                     // what scaled frequencies are divided by
  double rope_low_freq_factor = 1;            // llama3: turns in the original context at which
  double rope_high_freq_factor = 4;           // ... the division is whole, and none
  std::int64_t rope_original_context = 8192;  // llama3 and yarn: tokens
  double rope_beta_fast = 32;                 // yarn: turns in the original context from which on
  double rope_beta_slow = 1;                  // ... there is no division, and up to which all of it
  bool rope_truncate = true;                  // yarn: the pairs between are rounded outwards
  double rope_attention_factor = 0;           // yarn: of cos and sin; 0: 0.1 ln(rope_factor) + 1
  bool tied = true;                           // embedding and head share one table
  bool scale_embedding = false;               // times sqrt(width)
  double dropout = 0;                         // probability, on residual branches and the embedding
  Recompute recompute = Recompute::none;
  Offload offload = Offload::none;
  // Tokens that blocks take at a time, but for attention and mixtures; 0: all of a microbatch;
  // absent: chunk_tokens_of() decides.
  std::optional<std::int64_t> chunk_tokens;
  std::string init_from;  // checkpoint whose weights start the run at step 0, or empty
  AdapterConfig adapter;  // where it has a rank, all else is frozen

  bool operator==(const ModelConfig&) const = default;
};

// Is its first product a gate beside what it opens?
constexpr bool is_gated(ActivationKind a) {
  return a != ActivationKind::gelu;
}

// kv_heads, head_dim, ffn_width and expert_width decided; a gated MLP's 8/3*width is rounded up to
// a multiple of 64. vocab may still be 0. Checks nothing, so it takes illegal shapes too: head_dim
// stays 0 where heads does not divide width.
ModelConfig completed(ModelConfig);

// ModelConfig::chunk_tokens, decided; `tokens`: of a sample on a rank. Automatic are chunks where a
// rank has more than 8,192: of 4,096, or the next multiple of exact_chunk.
std::int64_t chunk_tokens_of(const ModelConfig&, std::int64_t tokens, std::int64_t exact_chunk);

constexpr bool norms_before(const ModelConfig& c) {
  return c.norm_place != NormPlace::after;
}
constexpr bool norms_after(const ModelConfig& c) {
  return c.norm_place != NormPlace::before;
}

// Is the MLP of this block a mixture of experts?
bool has_experts(const ModelConfig&, std::int64_t layer);

// Tokens that attention of this block sees, up to the query's own; 0: all.
std::int64_t window_of(const ModelConfig&, std::int64_t layer);

// Rows of a learned table; what an export says that the model takes.
constexpr std::int64_t positions_of(const ModelConfig& c) {
  return c.max_context > c.context ? c.max_context : c.context;
}
// The model that adapters stand beside.
ModelConfig without_adapters(ModelConfig);
// The model as a function of tokens, of one that is completed: what changes none of its values is
// at its default. That is its name, where its weights came from, what training alone uses, the
// length of samples (a table of positions has it in its shape), and keys that others leave unused,
// as a window that reaches over all positions.
ModelConfig canonical(ModelConfig);

// The names, each family's smallest first, and the shape of one (not completed, so that a deck may
// change its width). Throws Error when no preset has that name.
std::vector<std::string_view> model_preset_names();
ModelConfig model_preset(std::string_view name);

}  // namespace trireme
