#pragma once
// The experts of a mixture on the tokens that chose them: y_t = skip_t + sum over the token's rows
// of what an expert makes of x_t and the row's weight (expert_mlp.hpp). One op, so that x is kept
// once and not for each of its experts.
//
// Where experts are shared out over ranks, rows travel to their owners and back, in rounds
// (lib/ops/expert_rounds.hpp). Backward keeps what the first round computed; what other rounds did
// is sent and computed again.
#include <vector>

#include "lib/ops/expert_mlp.hpp"

namespace trireme {

// The ranks that hold all experts between them.
struct ExpertGroup {
  const Communicator& ranks;
  std::int64_t rows_of_round = 0;  // that a rank takes at a time; 0: 1.25 times an even load
};

namespace ops {

// in: x_BTC, weight_TK, then the tensors of ExpertOrder (lib/ops/router.hpp), then skip_BTC if
// there is one; out: y_BTC.
class Experts final : public Op {
 public:
  // Weights [2F, C] and [C, F] of each expert.
  Experts(std::vector<ParamId> in, std::vector<ParamId> out, std::int64_t width);

  std::string_view name() const override { return "experts"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  // Of the experts that this rank holds.
  ExpertMlp mlp(const Run&) const;
  std::int64_t count_of_experts() const { return static_cast<std::int64_t>(params_.size()) / 2; }

  Tensor forward_here(const Run&, std::vector<Tensor> in, Saved*) const;
  Tensor forward_over_ranks(const Run&, std::vector<Tensor> in, Saved*) const;
  std::vector<Tensor> gradients_here(const Run&, const std::vector<Tensor>& grad_out, Saved&,
                                     std::span<const std::uint8_t> wanted) const;
  // Adds weight gradients round by round, or leaves what they are made of behind what is saved.
  std::vector<Tensor> gradients_over_ranks(const Run&, const Tensor& dy_BTC, Saved&,
                                           std::span<const std::uint8_t> wanted,
                                           bool add_now) const;

  std::vector<ParamId> params_;  // in of all experts, then out
  std::int64_t width_;           // F
};

}  // namespace ops
}  // namespace trireme
