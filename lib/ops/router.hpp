#pragma once
// Router: chooses K of E experts for each token and their weights (mixture of experts,
// lib/model/config.hpp). The logits z = x w' + logit_bias and the results have the wide type.
//   choice_TK = the K largest of scores(z) + bias
//   weight_TK = the scores of these, divided by their sum if `normalize` is set
//   dz = the gradient through the weights plus the gradient of RouterLosses;  dx = dz w
//
// Losses are means over all tokens of a step and all layers. Load balancing counts each sample
// separately or, with attention within documents, each document. The losses therefore depend
// neither on the grid of ranks nor on packing. Padding does not count in losses or loads, and its
// expert output is 0.
//
// SigmoidGate: y_T = sigmoid(x w'), in the wide type: the weight of a shared expert.
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme {

// Totals of one step, to which all routers of a stage add.
struct RoutingTotals {
  View load_LE{};  // i64: number of tokens that chose each expert, by layer
  // The two sums of RouterLosses over tokens and layers. `losses` is f64, or i64 in loss quanta
  // (lib/base/fixed.hpp). `largest` is the largest magnitude of a quanta term.
  View losses{}, largest{};
  std::int64_t* more_rounds = nullptr;  // number of rounds of ExpertsOverRanks beyond the first
};

namespace ops {

// Order of token rows sorted by expert, as i32 outputs of kernel::SortChoices. If experts are
// distributed over ranks, count_LE (i64) counts the choices of each expert, separately for each
// chunk (leaf) of PassContext::exact_chunk tokens. Without exact sums, all tokens form one leaf.
struct ExpertOrder {
  Tensor offset_E1, token_R, choice_R, row_TK, count_LE;
};

// The router of one block. Input: x_BTC. Outputs: weight_TK, then the tensors of ExpertOrder.
class Router final : public Op {
 public:
  struct Config {
    std::int64_t experts, of_token;  // E, K
    RouterScores scores;
    bool normalize;
  };
  // `bias` affects the choice of experts, and `logit_bias` is added to the logits. Each is -1 if
  // the router does not have it. `layer` is the row of RoutingTotals::load_LE to which this router
  // adds.
  Router(ParamId weight, ParamId bias, ParamId logit_bias, const Config&, std::int64_t layer);

  std::string_view name() const override { return "router"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  // Counts how often the tokens of all sequence-parallel ranks chose each expert, by sample or by
  // document. Returns an absent tensor if there is no load balancing by sample.
  Tensor count_together(const Run&, const Tensor& choice_RTK, std::int64_t samples) const;
  void add_totals(const Run&, const Tensor& logits_TE, const Tensor& choice_TK,
                  const Tensor& count_BE) const;

  std::vector<ParamId> params_;  // parameters with gradients: the weight and the logits' bias
  ParamId bias_;
  Config config_;
  std::int64_t layer_;
};

// The gate that weights a shared expert's output. Input: x_BTC. Output: weight_T1.
class SigmoidGate final : public Op {
 public:
  explicit SigmoidGate(ParamId weight) : params_{weight} {}

  std::string_view name() const override { return "sigmoid_gate"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  std::vector<ParamId> params_;
};

}  // namespace ops
}  // namespace trireme
