#pragma once
// The four kinds of part.
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

// x_BTC = dropout(table[ids_BT] + positions), the table times sqrt(width) where the model says so
class EmbeddingPart final : public Part {
 public:
  EmbeddingPart(const ModelSpec&, DType compute);
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

// What stands before attention: x -> x, and qkv of its norm, or of x where norms stand behind, with
// queries and keys normed and turned where the model says so.
class AttentionInput final : public Stretch {
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

// What stands behind it, of x and attention's o: x += dropout(projection(o));
// x += dropout(ffn(norm(x))). Norms behind are of what dropout takes.
class AttentionOutput final : public Stretch {
 public:
  AttentionOutput(const ModelSpec&, const BlockParams&, std::int64_t layer);
  std::string_view name() const override { return "attention_output"; }
  std::vector<Value> forward(Tape&, const Run&, std::vector<Value> x_and_o) const override;

 private:
  // The residual stream, and what the MLP reads.
  std::vector<Value> residual(Tape&, const Run&, std::vector<Value> x_and_branch) const;

  std::unique_ptr<Op> projection_;
  std::optional<ops::Norm> attention_out_norm_, ffn_out_norm_;
  std::optional<ops::ResidualNorm> attention_residual_norm_;  // or, where no norm follows,
  ops::Residual attention_residual_;
  std::unique_ptr<FeedForward> feed_forward_;
  ops::Residual ffn_residual_;
};

// x += dropout(projection(attention(norm(x)))); x += dropout(ffn(norm(x))), with norms where the
// model says
class BlockPart final : public Part {
 public:
  // rotary_T2E is absent with learned positions.
  BlockPart(const ModelSpec&, std::int64_t layer, const Tensor& rotary_T2E, bool exact);
  std::string_view name() const override { return name_; }
  std::span<const Borrow> units() const override { return units_; }
  bool recomputable() const override { return true; }
  Value forward(Tape&, const Run&, Value x_BTC) const override;

 private:
  BlockPart(const ModelSpec&, const BlockParams&, std::int64_t layer, const Tensor& rotary_T2E,
            bool exact);

  std::string name_;
  std::vector<Borrow> units_;
  AttentionInput input_;
  ops::SplitHeads split_heads_;
  ops::Attention attention_;
  ops::JoinHeads join_heads_;
  AttentionOutput output_;
  bool has_experts_;
};

class FinalNormPart final : public Part {
 public:
  explicit FinalNormPart(const ModelSpec&);
  std::string_view name() const override { return "final_norm"; }
  std::span<const Borrow> units() const override { return units_; }
  Value forward(Tape&, const Run&, Value x_BTC) const override;

 private:
  std::vector<Borrow> units_;
  ops::Norm norm_;
};

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
