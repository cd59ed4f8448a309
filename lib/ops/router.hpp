#pragma once
// Router of a mixture of experts (lib/model/config.hpp): which K of E experts a token uses, and
// with which weights. With z = x w', in the wide type:
//   choice_TK = the K largest of scores(z) + bias
//   weight_TK = their scores, divided by their sum where that is chosen
//   dz = what comes through the weights, and of RouterLosses;  dx = dz w
// Losses are means over the tokens of a step, of all layers, and count each sample by itself, and
// where documents stand apart each of them, so they depend on no layout and no packing. Padding is
// in neither and in no load, and no expert adds to it.
//
// SigmoidGate: y_T = sigmoid(x w'), in the wide type, the weight of a shared expert.
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme {

// What the routers of a stage add up over a step.
struct RoutingTotals {
  View load_LE{};  // i64: tokens that chose an expert, by layer
  // Over tokens and layers of RouterLosses: f64, or i64 counts of loss quanta and their largest.
  View losses{}, largest{};
  std::int64_t* more_rounds = nullptr;  // of tokens to other ranks' experts, beyond the first
};

namespace ops {

// How rows of tokens stand where they are sorted by expert: outputs of SortChoices, i32; and how
// many choices of each leaf's tokens (one leaf: all of them) each expert has, i64, where experts
// are spread over ranks.
struct ExpertOrder {
  Tensor offset_E1, token_R, choice_R, row_TK, count_LE;
};

class Router final : public Op {  // in: x_BTC; out: weight_TK, then the tensors of ExpertOrder
 public:
  struct Config {
    std::int64_t experts, of_token;  // E, K
    RouterScores scores;
    bool normalize;
  };
  // `bias` of value -1: none. `layer`: whose row of load_LE is added to.
  Router(ParamId weight, ParamId bias, const Config&, std::int64_t layer);

  std::string_view name() const override { return "router"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  // Of each sample's, or document's, tokens on all ranks of seq, whose choices these are; absent
  // where nothing is balanced by sample.
  Tensor count_together(const Run&, const Tensor& choice_RTK, std::int64_t samples) const;
  void add_totals(const Run&, const Tensor& logits_TE, const Tensor& choice_TK,
                  const Tensor& count_BE) const;

  std::vector<ParamId> params_;  // that have gradients
  ParamId bias_;
  Config config_;
  std::int64_t layer_;
};

class SigmoidGate final : public Op {  // in: x_BTC; out: weight_T1
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
