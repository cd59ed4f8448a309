#pragma once
// Experts of a mixture of experts, applied to the tokens that chose them: y_t = skip_t + the sum of
// the outputs of t's experts, each weighted by the router (expert_mlp.hpp). All experts form one
// op, so x is saved only once.
#include <vector>

#include "lib/ops/expert_mlp.hpp"

namespace trireme::ops {

// The parameters of a block's experts.
class ExpertParams {
 public:
  explicit ExpertParams(const ExpertMlp::Params&);
  // Returns all parameters.
  std::span<const ParamId> all() const { return params_; }
  std::int64_t count() const { return experts_; }
  // Returns the MLPs of experts [first, first + count). This object must outlive the result.
  ExpertMlp mlp(std::int64_t first, std::int64_t count) const;
  ExpertMlp mlp() const { return mlp(0, experts_); }

 private:
  // `in` of all experts, then `out`, `in_bias` and `out_bias`, and then those of adapters.
  std::vector<ParamId> params_;
  ExpertLowRank in_adapter_, out_adapter_;
  bool biases_;
  std::int64_t experts_, width_;
  GateFunction gate_;
};

// The experts of a block on a rank that holds all of them. Inputs: x_BTC, weight_TK, the tensors of
// ExpertOrder (lib/ops/router.hpp) and, if present, skip_BTC. Output: y_BTC.
class Experts final : public Op {
 public:
  explicit Experts(const ExpertMlp::Params& params) : experts_(params) {}

  std::string_view name() const override { return "experts"; }
  std::span<const ParamId> params() const override { return experts_.all(); }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  ExpertParams experts_;
};

// Experts that are distributed over the ranks of Run::expert_group (expert parallelism). Inputs and
// output are those of Experts. Rows are sent to the owners of their experts and back, in rounds
// (lib/ops/expert_rounds.hpp). Results of the first round are saved for the backward pass. Rows of
// other rounds are sent and computed again.
class ExpertsOverRanks final : public Op {
 public:
  explicit ExpertsOverRanks(const ExpertMlp::Params& params) : experts_(params) {}

  std::string_view name() const override { return "experts"; }
  std::span<const ParamId> params() const override { return experts_.all(); }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;
  // Adds weight gradients after each round, so that the inputs of only one round are in memory.
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  enum class WeightGradients : std::uint8_t { now, later };
  // Returns the MLPs of the experts that this rank holds.
  ExpertMlp mlp(const Run&) const;
  // Computes the input gradients. With WeightGradients::later, the function also appends the inputs
  // of the weight gradients to Saved.
  std::vector<Tensor> gradients(const Run&, const Tensor& dy_BTC, Saved&,
                                std::span<const std::uint8_t> wanted, WeightGradients) const;

  ExpertParams experts_;  // of all experts of the group
};

}  // namespace trireme::ops
