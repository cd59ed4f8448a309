#pragma once
// The parts of a transformer: embedding, block, final norm and head.
#include <optional>

#include "lib/model/feed_forward.hpp"
#include "lib/model/model.hpp"
#include "lib/model/product.hpp"
#include "lib/ops/attention.hpp"
#include "lib/ops/collective.hpp"
#include "lib/ops/embedding.hpp"
#include "lib/ops/qk_norm.hpp"
#include "lib/ops/repeat_heads.hpp"
#include "lib/ops/residual_norm.hpp"
#include "lib/ops/rotary.hpp"

namespace trireme {

// The embedding: x_BTC = dropout(s * table[ids_BT] + positions). The factor s is sqrt(width) if
// ModelConfig::scale_embedding is set, otherwise ModelConfig::embedding_scale.
class EmbeddingPart final : public Part {
 public:
  EmbeddingPart(const ModelSpec&, const ModelSettings&);
  std::string_view name() const override { return "embedding"; }
  std::span<const Borrow> units() const override { return units_; }
  BackwardReads backward_reads() const override { return BackwardReads::nothing; }
  Value forward(Tape&, const Run&, Value ids_BT) const override;

 private:
  std::vector<Borrow> units_;
  ops::Embedding table_;
  std::optional<ops::Multiply> scale_;
  std::optional<ops::AddPositions> positions_;
  ops::Dropout dropout_;
};

// The first sequence of a block: everything before attention. The outputs are x and the packed
// projections qkv of norm(x). Without a norm before attention, qkv is computed from x. If the
// config requires it, queries and keys are normalized and rotated.
class AttentionInput final : public TokenwiseOps {
 public:
  AttentionInput(const ModelSpec&, const BlockParams&, const Tensor& rotary_T2E, bool exact);
  std::string_view name() const override { return "attention_input"; }
  std::vector<Value> forward(Tape&, const Run&, std::vector<Value> x) const override;

 private:
  std::optional<ops::Norm> norm_;
  std::unique_ptr<Op> qkv_;
  std::optional<ops::QkNorm> qk_norm_;
  std::optional<ops::Rotary> rotary_;
  std::optional<ops::RepeatHeads> repeat_heads_;
};

// The second sequence of a block: everything after attention. The inputs are x and attention's
// output o. The sequence computes x += dropout(projection(o)), then x += dropout(ffn(norm(x))).
// Before dropout, each branch passes through the norm after it, if any, and is multiplied by
// ModelConfig::residual_scale.
class AttentionOutput final : public TokenwiseOps {
 public:
  AttentionOutput(const ModelSpec&, const BlockParams&, std::int64_t layer, double dropout);
  std::string_view name() const override { return "attention_output"; }
  std::vector<Value> forward(Tape&, const Run&, std::vector<Value> x_and_o) const override;

 private:
  // Applies the norm after a branch, if any, and residual_scale.
  Value end_branch(Tape&, const Run&, const std::optional<ops::Norm>&, Value branch) const;
  // Adds a branch to the residual stream. Returns the sum and the input of the MLP.
  std::vector<Value> residual(Tape&, const Run&, std::vector<Value> x_and_branch) const;

  std::unique_ptr<Op> projection_;
  std::optional<ops::Norm> attention_out_norm_, ffn_out_norm_;
  std::optional<ops::Multiply> scale_;
  std::optional<ops::ResidualNorm> attention_residual_norm_;  // absent if no norm precedes the MLP
  ops::Residual attention_residual_;
  std::unique_ptr<FeedForward> feed_forward_;
  ops::Residual ffn_residual_;
};

// A transformer block: x += dropout(projection(attention(norm(x)))), then x +=
// dropout(ffn(norm(x))). ModelConfig::norm_place moves the norms.
class BlockPart final : public Part {
 public:
  // If the block does not rotate queries and keys, rotary_T2E is absent.
  BlockPart(const ModelSpec&, std::int64_t layer, const Tensor& rotary_T2E, const ModelSettings&);
  std::string_view name() const override { return name_; }
  std::span<const Borrow> units() const override { return units_; }
  bool recomputable() const override { return true; }
  Value forward(Tape&, const Run&, Value x_BTC) const override;

 private:
  BlockPart(const ModelSpec&, const BlockParams&, std::int64_t layer, const Tensor& rotary_T2E,
            const ModelSettings&);

  std::string name_;
  std::vector<Borrow> units_;
  AttentionInput input_;
  ops::SplitHeads split_heads_;
  ops::Attention attention_;
  ops::JoinHeads join_heads_;
  AttentionOutput output_;
  bool has_experts_;
};

// The norm after the last block, multiplied by ModelConfig::logit_scale.
class FinalNormPart final : public Part {
 public:
  explicit FinalNormPart(const ModelSpec&);
  std::string_view name() const override { return "final_norm"; }
  std::span<const Borrow> units() const override { return units_; }
  Value forward(Tape&, const Run&, Value x_BTC) const override;

 private:
  std::vector<Borrow> units_;
  ops::Norm norm_;
  std::optional<ops::Multiply> scale_;
};

// The output projection with the loss.
class HeadPart final : public Part {
 public:
  explicit HeadPart(const ModelSpec&);
  std::string_view name() const override { return "head"; }
  std::span<const Borrow> units() const override { return units_; }
  BackwardReads backward_reads() const override { return BackwardReads::nothing; }
  GradientsIn gradients_in() const override { return GradientsIn::forward; }
  Value forward(Tape&, const Run&, Value x_BTC) const override;
  const ops::Head& op() const { return head_; }

 private:
  std::vector<Borrow> units_;
  ops::Head head_;
};

}  // namespace trireme
