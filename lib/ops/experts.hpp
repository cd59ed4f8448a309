#pragma once
// The experts of a mixture on the tokens that chose them: y_t = skip_t + sum over the token's rows
// of what an expert makes of x_t and the row's weight (expert_mlp.hpp). One op, so that x is kept
// once and not for each of its experts.
#include <vector>

#include "lib/ops/expert_mlp.hpp"

namespace trireme::ops {

// in: x_BTC, weight_TK, then the tensors of ExpertOrder (lib/ops/router.hpp), then skip_BTC if
// there is one; out: y_BTC.
class Experts final : public Op {
 public:
  // Weights [2F, C] and [C, F] of each expert.
  Experts(std::span<const ParamId> in, std::span<const ParamId> out, std::int64_t width);

  std::string_view name() const override { return "experts"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  ExpertMlp mlp() const;

  std::vector<ParamId> params_;  // in of all experts, then out
  std::int64_t width_;           // F
};

// The same where Run::expert_group holds the experts between its ranks: rows are sent to their
// owners and back, in rounds (lib/ops/expert_rounds.hpp). Backward keeps what the first round
// computed; what other rounds did is sent and computed again.
class ExpertsOverRanks final : public Op {
 public:
  ExpertsOverRanks(std::span<const ParamId> in, std::span<const ParamId> out, std::int64_t width);

  std::string_view name() const override { return "experts"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;
  // Adds weight gradients round by round, so that none of them keeps what they are made of.
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  enum class WeightGradients : std::uint8_t { now, later };
  // Of the experts that this rank holds.
  ExpertMlp mlp(const Run&) const;
  std::int64_t experts() const { return static_cast<std::int64_t>(params_.size()) / 2; }
  // `later`: leaves what they are made of behind what is saved.
  std::vector<Tensor> gradients(const Run&, const Tensor& dy_BTC, Saved&,
                                std::span<const std::uint8_t> wanted, WeightGradients) const;

  std::vector<ParamId> params_;  // in of all experts of the group, then out
  std::int64_t width_;           // F
};

}  // namespace trireme::ops
