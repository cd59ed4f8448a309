#pragma once
// The MLPs of experts (mixture of experts), applied to rows sorted by expert. For row r with
// weight_r and expert e:
//   h_r = weight_r swiglu(x_r in_e' + in_bias_e);  y_r = h_r out_e' + weight_r out_bias_e
// The weight multiplies h and not y. The weight's gradient is then computed from h's gradient and
// swiglu, so outputs y need not be stored. Biases are optional. GateFunction selects the gate.
//
// With adapters, w_e + s b_e a_e takes the place of a weight w_e. The product b_e a_e is never
// computed: the rows are multiplied by a_e' and the results, of rank R, by b_e'.
#include <span>
#include <vector>

#include "kernels/activation.hpp"
#include "lib/autograd/op.hpp"
#include "lib/ops/adapted_linear.hpp"

namespace trireme::ops {

// Rows of tokens, sorted by expert, on the rank that holds these experts. Tensors of rows may be
// larger than the number of rows, and may be absent if there are none. This also applies to the
// functions below.
struct ExpertRows {
  Tensor x_NC, weight_N1, offset_E1;
  Tensor token_N;  // for exact sums: identifies the leaf of each row (expert_rounds.hpp)
  std::int64_t count;
  std::int64_t first_expert = 0;             // the expert of the first offset in offset_E1
  std::vector<std::int32_t> known_offset{};  // as in kernel::GroupedMatmul
  // Number of rows for which temporary results are allocated, so that memory does not depend on how
  // many tokens chose these experts. At least `count`.
  std::int64_t most = count;
};

// Low-rank adapters of one weight of each expert, as AdaptedLinear defines them. All experts have
// the same products.
struct ExpertLowRank {
  std::vector<ParamId> a, b;  // by expert; empty if there are no adapters
  std::int64_t rank = 0;
  double scale = 1;
  std::vector<LowRank::Product> products{};

  // Returns the adapters of experts [first, first + count).
  ExpertLowRank of(std::int64_t first, std::int64_t count) const;
};

// The MLPs of a list of experts.
class ExpertMlp {
 public:
  // Results of the first layer: gate and up, and h = weight * swiglu.
  struct Hidden {
    Tensor gate_up, h;
  };
  // Gradients of gate and up, and of the rows' weights.
  struct RowGradients {
    Tensor gate_up, weight_N1;
  };
  // What the gradients of adapters need of each row: t = s x a' and u = s dy b, of the first and of
  // the second layer. Tensors are absent if no gradient needs them.
  struct InnerRows {
    Tensor in_t, in_u, out_t, out_u;
  };
  // `in` [2F, C] and `out` [C, F] are the weights of the experts whose rows are processed. The
  // biases have 2F and C elements. Their spans are empty if the experts have no biases. `width` is
  // F.
  struct Params {
    std::span<const ParamId> in, out, in_bias{}, out_bias{};
    ExpertLowRank in_adapter{}, out_adapter{};
    std::int64_t width = 0;
    GateFunction gate = GateFunction::silu;
  };
  // The spans must outlive this object.
  explicit ExpertMlp(Params params) : p_(std::move(params)) {}

  // Returns true if any gradient of the first or of the second layer is wanted.
  bool wants_in(const Run&) const;
  bool wants_out(const Run&) const;
  bool has_bias() const { return !p_.out_bias.empty(); }

  // Allocates the results of the first layer for `rows` rows.
  Hidden room_for_hidden(const Run&, std::int64_t rows, MemoryKind) const;

  // hidden() computes the first layer, output() computes the second layer, and row_gradients()
  // computes the gradients of gate, up and the rows' weights. Each function writes its results to
  // its last argument.
  void hidden(const Run&, const ExpertRows&, const Hidden&) const;
  void output(const Run&, const ExpertRows&, const Tensor& h, const Tensor& y_NC) const;
  void row_gradients(const Run&, const ExpertRows&, const Tensor& gate_up, const Tensor& dy_NC,
                     const RowGradients&) const;
  // Computes the gradient of x from the gradient of gate and up.
  void x_gradient(const Run&, const ExpertRows&, const Tensor& dgate_up, const Tensor& dx_NC) const;
  // Computes the inner rows of both layers' adapters if their gradients are wanted. rows.x_NC must
  // be present if adapts_in().
  InnerRows inner_rows(const Run&, const ExpertRows&, const Tensor& h, const Tensor& dgate_up,
                       const Tensor& dy_NC) const;
  // Returns true if the gradients of any adapter, or of one of the first layer, are wanted.
  bool adapts(const Run&) const;
  bool adapts_in(const Run&) const;
  // Add the wanted gradients of the first or of the second layer's parameters, from the gradient of
  // gate and up and from the gradient of y. They read no weights. If the experts have biases, the
  // second layer needs the rows' weights. `leaves` is the argument of Gradients::add_whole for all
  // rounds together. `round` is the index of the round that these rows belong to.
  void add_in_gradients(const Run&, const Tensor& dgate_up, const Tensor& x_NC, const InnerRows&,
                        const ExpertRows&, std::int64_t leaves, std::size_t round = 0) const;
  void add_out_gradients(const Run&, const Tensor& dy_NC, const Tensor& h, const InnerRows&,
                         const ExpertRows&, std::int64_t leaves, std::size_t round = 0) const;

 private:
  Params p_;
};

}  // namespace trireme::ops
