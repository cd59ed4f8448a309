#pragma once
// ModelConfig: the architecture of a model. It determines which function of tokens the model
// computes, given weights, and nothing about runs. A value of 0 means that completed() will
// determine the value, unless 0 has a meaning of its own.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/router_scores.hpp"
#include "lib/base/expect.hpp"
#include "lib/base/value_names.hpp"
#include "lib/ops/norm_kind.hpp"
#include "lib/ops/qk_norm_over.hpp"
#include "lib/ops/rope_scaling.hpp"

namespace trireme {

// Activation functions of the MLP. swiglu_clamped is the clamped SwiGLU of gpt-oss.
enum class ActivationKind : std::uint8_t { gelu, swiglu, geglu, swiglu_clamped };
template <>
inline constexpr auto value_names<ActivationKind> = named<ActivationKind>("gelu", "swiglu", "geglu",
                                                                          "swiglu_clamped");
// Returns what the MLP computes between its two products: an activation, or a gate that multiplies
// the other half of the first product's outputs.
constexpr std::variant<Activation, GateFunction> function_of(ActivationKind a) {
  switch (a) {
    case ActivationKind::gelu:
      return Activation::gelu;
    case ActivationKind::swiglu:
      return GateFunction::silu;
    case ActivationKind::geglu:
      return GateFunction::gelu;
    case ActivationKind::swiglu_clamped:
      return GateFunction::clamped_silu;
  }
  throw Error("unknown activation");
}
// Returns true if the MLP has a gate. Experts need one.
constexpr bool is_gated(ActivationKind a) {
  return std::holds_alternative<GateFunction>(function_of(a));
}
// Position embeddings: a learned table, or rotary embedding of queries and keys.
enum class Positions : std::uint8_t { learned, rotary };
template <>
inline constexpr auto value_names<Positions> = named<Positions>("learned", "rotary");
// Position of a block's norms: before attention and the MLP, after them (but before the residual
// addition), or both.
enum class NormPlace : std::uint8_t { before, after, both };
template <>
inline constexpr auto value_names<NormPlace> = named<NormPlace>("before", "after", "both");
// The architecture of a model.
struct ModelConfig {
  std::int64_t layers = 12;    // transformer blocks
  std::int64_t width = 768;    // channels of the residual stream
  std::int64_t heads = 12;     // query heads
  std::int64_t kv_heads = 0;   // key-value heads; 0 means `heads`
  std::int64_t head_dim = 0;   // channels per head; 0 means width / heads
  std::int64_t ffn_width = 0;  // channels of the MLP; 0 means 8/3 width if gated, else 4 width
  std::int64_t vocab = 0;      // rows of the embedding; 0 takes them from the token files
  // Positions for which the model is made: the rows of a learned position table, and the maximum
  // context length of an exported model.
  std::int64_t max_context = 1024;
  NormKind norm = NormKind::layer;
  NormPlace norm_place = NormPlace::before;
  double norm_eps = 1e-5;
  bool bias = true;       // biases in projections and layer norm
  bool qkv_bias = false;  // bias in the qkv projection; implied by bias
  bool qk_norm = false;   // RMS norm of queries and keys before positions
  QkNormOver qk_norm_over = QkNormOver::head;
  std::int64_t window = 0;  // sliding window in tokens, including a token itself; 0 means none
  std::vector<std::int64_t> window_layers;  // blocks with a window, from 0; empty means all
  double attention_scale = 0;               // factor of attention scores; 0 means 1/sqrt(head_dim)
  double attention_softcap = 0;             // c > 0: scores s become c tanh(s / c); 0 means off
  double residual_scale = 1;                // factor of each branch before the residual addition
  double logit_scale = 1;                   // factor of logits, applied before logit_softcap
  double logit_softcap = 0;                 // same as attention_softcap, for logits
  bool attention_sinks = false;             // a learned logit per query head that joins its softmax
  ActivationKind activation = ActivationKind::gelu;
  std::int64_t experts = 0;              // experts per block; 0 means one ordinary MLP
  std::int64_t experts_per_token = 0;    // experts that the router chooses per token
  std::int64_t expert_width = 0;         // channels of an expert; 0 means ffn_width
  std::int64_t shared_expert_width = 0;  // channels of an expert for every token; 0 means none
  bool shared_expert_gate = false;       // a sigmoid weights the shared expert's output
  bool expert_bias = false;              // biases in the router's and the experts' products
  // Function that converts router logits to scores. With sigmoid, a bias affects the choice of
  // experts but not their weights.
  RouterScores router = RouterScores::softmax;
  bool norm_topk = true;                   // scale a token's expert weights to sum to 1
  std::vector<std::int64_t> dense_layers;  // blocks with an ordinary MLP, from 0
  Positions positions = Positions::learned;
  std::vector<std::int64_t> nope_layers;  // blocks without rotary positions, from 0
  // Channels of each head that rotate. 0 means all. Channel i rotates with channel i + head_dim /
  // 2, for i < rotary_dim / 2. The other channels do not rotate.
  std::int64_t rotary_dim = 0;
  double rope_theta = 10000;  // base of the rotary frequencies
  // Base of the rotary frequencies for blocks with a window, which are not scaled. 0 means that
  // these blocks use the same frequencies as other blocks.
  double window_rope_theta = 0;
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1;  // divisor of scaled frequencies
  // For llama3: pairs that turn at most low_freq_factor times in the original context are divided
  // by rope_factor. Pairs that turn at least high_freq_factor times are not divided.
  double rope_low_freq_factor = 1;
  double rope_high_freq_factor = 4;
  std::int64_t rope_original_context = 8192;  // llama3, yarn: tokens
  // For yarn: pairs that turn at least beta_fast times in the original context are not divided.
  // Pairs that turn at most beta_slow times are divided by rope_factor.
  double rope_beta_fast = 32;
  double rope_beta_slow = 1;
  bool rope_truncate = true;         // yarn: round the range between outward to whole pairs
  double rope_attention_factor = 0;  // yarn: factor of cos and sin; 0 means 0.1 ln(rope_factor) + 1
  bool tied = true;                  // tied embeddings: embedding and head share one table
  bool scale_embedding = false;      // multiply embeddings by sqrt(width)
  double embedding_scale = 1;        // factor of embeddings if scale_embedding is not set

  bool operator==(const ModelConfig&) const = default;
};

// Returns the config with kv_heads, head_dim, ffn_width and expert_width set. For gated MLPs, 8/3
// width is rounded up to a multiple of 64. vocab may stay 0. The function accepts illegal shapes:
// head_dim stays 0 if heads does not divide width.
ModelConfig completed(ModelConfig);

// norms_before() returns true if blocks have norms before attention and the MLP. norms_after()
// returns true if blocks have norms after them.
constexpr bool norms_before(const ModelConfig& c) {
  return c.norm_place != NormPlace::after;
}
constexpr bool norms_after(const ModelConfig& c) {
  return c.norm_place != NormPlace::before;
}

// Returns true if the MLP of this block is a mixture of experts.
bool has_experts(const ModelConfig&, std::int64_t layer);

// Returns the sliding window of this block in tokens, the query's own token included. 0 means no
// window.
std::int64_t window_of(const ModelConfig&, std::int64_t layer);

// Returns true if this block rotates queries and keys.
bool has_rotary(const ModelConfig&, std::int64_t layer);

// Returns the normal form of a completed config: models that compute the same function of tokens
// have equal normal forms. Settings that other settings make unused get their defaults, such as a
// window that covers all positions. So does max_context, because the shape of a position table
// shows it.
ModelConfig canonical(ModelConfig);

// model_preset_names() returns the names of all presets, smallest first within each family.
// model_preset() returns the config of one preset. The config is not completed, so a deck can still
// change its width. Throws Error if there is no such preset.
std::vector<std::string_view> model_preset_names();
ModelConfig model_preset(std::string_view name);

}  // namespace trireme
