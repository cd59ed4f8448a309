#include "lib/model/parts.hpp"

#include <cmath>

#include "lib/ops/key_values.hpp"
#include "lib/ops/norm.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme {

static ops::NormWeights norm_weights(const ModelConfig& c, ParamId weight, ParamId bias) {
  return {c.norm, weight, bias, c.norm_eps};
}

static ops::Heads heads_of(const ModelConfig& c) {
  return {c.heads, c.kv_heads, c.head_dim};
}

// Returns the heads that attention receives. With `exact`, key-value heads are repeated, so there
// are as many as query heads.
static ops::Heads attended(const ModelConfig& c, bool exact) {
  return {c.heads, exact ? c.heads : c.kv_heads, c.head_dim};
}

// Returns the factor of embeddings. sqrt(width) is rounded to the compute type as in Gemma.
static double scale_of_embedding(const ModelConfig& c, DType compute) {
  if (!c.scale_embedding) return c.embedding_scale;
  const double scale = std::sqrt(static_cast<double>(c.width));
  return compute == DType::bf16
             ? static_cast<double>(static_cast<float>(bf16(static_cast<float>(scale))))
             : scale;
}

// Returns the op that multiplies by the factor, or an empty optional if the factor is 1.
static std::optional<ops::Multiply> multiply_by(double factor) {
  if (factor == 1) return {};
  return ops::Multiply(factor);
}

EmbeddingPart::EmbeddingPart(const ModelSpec& s, const ModelSettings& settings)
    : units_{{s.table_unit, Use::own}},
      table_(s.table, s.config.width, settings.compute, low_rank_of(s, s.table)),
      scale_(multiply_by(scale_of_embedding(s.config, settings.compute))),
      dropout_({0, settings.dropout}) {
  if (s.positions != ParamId{}) {
    positions_.emplace(s.positions);
    units_.push_back({s.position_unit, Use::own});
  }
}

Value EmbeddingPart::forward(Tape& tape, const Run& run, Value ids_BT) const {
  Value x = tape.apply(run, table_, std::move(ids_BT));
  if (scale_) x = tape.apply(run, *scale_, std::move(x));
  if (positions_) x = tape.apply(run, *positions_, std::move(x));
  return tape.apply(run, dropout_, std::move(x));
}

// Returns a vector of the values. A braced initializer list would copy them, and ops overwrite an
// input only if no other tensor shares it.
template <class... V>
static std::vector<Value> moved(V... values) {
  std::vector<Value> all;
  (all.push_back(std::move(values)), ...);
  return all;
}

// Returns the norm, or an empty optional if the model has no such weight.
static std::optional<ops::Norm> norm_where(const ModelConfig& c, ParamId weight, ParamId bias) {
  if (weight == ParamId{}) return {};
  return ops::Norm(norm_weights(c, weight, bias));
}

static std::optional<ops::ResidualNorm> residual_norm_where(const ModelConfig& c,
                                                            ops::DropoutSite site, ParamId weight,
                                                            ParamId bias) {
  if (weight == ParamId{}) return {};
  return ops::ResidualNorm(site, norm_weights(c, weight, bias));
}

static std::vector<Value> twice(Value x) {
  Value again = x;
  return moved(std::move(x), std::move(again));
}

AttentionInput::AttentionInput(const ModelSpec& s, const BlockParams& p, const Tensor& rotary_T2E,
                               bool exact)
    : norm_(norm_where(s.config, p.attention_norm, p.attention_norm_bias)),
      qkv_(make_product(s, p.qkv, p.qkv_bias)) {
  if (s.config.qk_norm)
    qk_norm_.emplace(heads_of(s.config), p.q_norm, p.k_norm, s.config.norm_eps,
                     s.config.qk_norm_over);
  if (rotary_T2E) rotary_.emplace(heads_of(s.config), rotary_T2E);
  if (exact && s.config.kv_heads < s.config.heads) repeat_heads_.emplace(heads_of(s.config));
}

std::vector<Value> AttentionInput::forward(Tape& tape, const Run& run, std::vector<Value> x) const {
  auto both = norm_ ? tape.apply(run, *norm_, std::move(x)) : twice(std::move(x[0]));
  Value h = tape.apply(run, *qkv_, std::move(both[1]));
  if (qk_norm_) h = tape.apply(run, *qk_norm_, std::move(h));
  if (rotary_) h = tape.apply(run, *rotary_, std::move(h));
  if (repeat_heads_) h = tape.apply(run, *repeat_heads_, std::move(h));
  both[1] = std::move(h);
  return both;
}

// Dropout site 0 is the embedding, and each block has the next two.
AttentionOutput::AttentionOutput(const ModelSpec& s, const BlockParams& p, std::int64_t layer,
                                 double dropout)
    : projection_(make_product(s, p.projection, p.projection_bias)),
      attention_out_norm_(norm_where(s.config, p.attention_out_norm, p.attention_out_norm_bias)),
      ffn_out_norm_(norm_where(s.config, p.ffn_out_norm, p.ffn_out_norm_bias)),
      scale_(multiply_by(s.config.residual_scale)),
      attention_residual_norm_(
          residual_norm_where(s.config, {1 + 2 * layer, dropout}, p.ffn_norm, p.ffn_norm_bias)),
      attention_residual_({1 + 2 * layer, dropout}),
      feed_forward_(make_feed_forward(s, layer)),
      ffn_residual_({2 + 2 * layer, dropout}) {}

Value AttentionOutput::end_branch(Tape& tape, const Run& run, const std::optional<ops::Norm>& norm,
                                  Value branch) const {
  if (norm) branch = std::move(tape.apply(run, *norm, moved(std::move(branch)))[1]);
  if (scale_) branch = tape.apply(run, *scale_, std::move(branch));
  return branch;
}

std::vector<Value> AttentionOutput::residual(Tape& tape, const Run& run,
                                             std::vector<Value> x_and_branch) const {
  if (attention_residual_norm_)
    return tape.apply(run, *attention_residual_norm_, std::move(x_and_branch));
  return twice(std::move(tape.apply(run, attention_residual_, std::move(x_and_branch))[0]));
}

std::vector<Value> AttentionOutput::forward(Tape& tape, const Run& run,
                                            std::vector<Value> x_and_o) const {
  x_and_o[1] = tape.apply(run, *projection_, std::move(x_and_o[1]));
  x_and_o[1] = end_branch(tape, run, attention_out_norm_, std::move(x_and_o[1]));
  auto both = residual(tape, run, std::move(x_and_o));
  both[1] = feed_forward_->forward(tape, run, std::move(both[1]));
  both[1] = end_branch(tape, run, ffn_out_norm_, std::move(both[1]));
  return tape.apply(run, ffn_residual_, std::move(both));
}

BlockPart::BlockPart(const ModelSpec& s, std::int64_t layer, const Tensor& rotary_T2E,
                     const ModelSettings& settings)
    : BlockPart(s, s.blocks[static_cast<std::size_t>(layer)], layer, rotary_T2E, settings) {}

BlockPart::BlockPart(const ModelSpec& s, const BlockParams& p, std::int64_t layer,
                     const Tensor& rotary_T2E, const ModelSettings& settings)
    : name_("block " + std::to_string(layer)),
      units_{{p.unit, Use::own}},
      input_(s, p, rotary_T2E, settings.exact),
      split_heads_(attended(s.config, settings.exact)),
      attention_(attended(s.config, settings.exact), static_cast<std::size_t>(layer),
                 window_of(s.config, layer), p.sinks,
                 {s.config.attention_scale, s.config.attention_softcap}),
      join_heads_(attended(s.config, settings.exact)),
      output_(s, p, layer, settings.dropout),
      has_experts_(has_experts(s.config, layer)) {}

Value BlockPart::forward(Tape& tape, const Run& run, Value x) const {
  auto both = tape.apply(run, input_, moved(std::move(x)));
  Value& h = both[1];
  const bool shared = ops::head_ranks(run).size > 1 && !extends(run);
  if (shared) h = tape.apply(run, split_heads_, std::move(h));
  h = tape.apply(run, attention_, std::move(h));
  if (shared) h = tape.apply(run, join_heads_, std::move(h));
  // With experts, the sequence must process all tokens of the micro-batch at once: the experts'
  // rounds already divide the tokens.
  if (has_experts_) return std::move(output_.forward(tape, run, std::move(both))[0]);
  return tape.finish(run, output_, std::move(both));
}

FinalNormPart::FinalNormPart(const ModelSpec& s)
    : units_{{s.norm_unit, Use::own}},
      norm_(norm_weights(s.config, s.final_norm, s.final_norm_bias)),
      scale_(multiply_by(s.config.logit_scale)) {}

Value FinalNormPart::forward(Tape& tape, const Run& run, Value x) const {
  x = std::move(tape.apply(run, norm_, moved(std::move(x)))[1]);
  if (scale_) x = tape.apply(run, *scale_, std::move(x));
  return x;
}

HeadPart::HeadPart(const ModelSpec& s)
    : units_{{s.head_unit, s.config.tied ? Use::tied : Use::own}},
      head_(s.head, s.config.vocab, s.config.logit_softcap, low_rank_of(s, s.head),
            s.params[s.head.index()].products) {}

Value HeadPart::forward(Tape& tape, const Run& run, Value x) const {
  return tape.apply(run, head_, std::move(x));
}

}  // namespace trireme
