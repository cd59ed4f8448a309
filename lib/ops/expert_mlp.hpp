#pragma once
// The MLPs of a mixture's experts on rows that are sorted by expert. Of a row r with a weight,
//   h_r = weight_r swiglu(x_r in_e'),  y_r = h_r out_e'
// so that outputs need not be kept: the weight's gradient is that of h times swiglu.
#include <span>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

// Rows of tokens, sorted by expert, on a rank that holds these experts. Here and below, tensors of
// rows may have memory for more, and be absent where there are none.
struct ExpertRows {
  Tensor x_NC, weight_N1, offset_E1;
  Tensor token_N;  // of exact sums: which rows are of one leaf
  std::int64_t count;
  std::int64_t first_expert = 0;  // whose rows offset_E1 begins with
};

class ExpertMlp {
 public:
  struct Hidden {
    Tensor gate_up, h;
  };
  struct RowGradients {
    Tensor gate_up, weight_N1;
  };
  // Parameters [2F, C] and [C, F] of the experts whose rows come, which outlive it.
  ExpertMlp(std::span<const ParamId> in, std::span<const ParamId> out, std::int64_t width)
      : in_(in), out_(out), width_(width) {}

  std::span<const ParamId> in() const { return in_; }
  std::span<const ParamId> out() const { return out_; }

  // Memory for `rows` rows.
  Hidden room_for_hidden(const Run&, std::int64_t rows, Kind) const;

  // What is computed is written into the last argument.
  void hidden(const Run&, const ExpertRows&, const Hidden&) const;
  void output(const Run&, const ExpertRows&, const Tensor& h, const Tensor& y_NC) const;
  void row_gradients(const Run&, const ExpertRows&, const Tensor& gate_up, const Tensor& dy_NC,
                     const RowGradients&) const;
  // From that of gate_up.
  void x_gradient(const Run&, const ExpertRows&, const Tensor& dgate_up, const Tensor& dx_NC) const;
  // dy' x of `params`, in() or out(), if one of them is wanted. `leaves`: as of
  // Gradients::add_whole, of all rounds, of which these rows are of one.
  void add_gradients(const Run&, std::span<const ParamId> params, const Tensor& dy_NM,
                     const Tensor& x_NK, const ExpertRows&, std::int64_t leaves,
                     std::size_t round = 0) const;

 private:
  std::span<const ParamId> in_, out_;
  std::int64_t width_;  // F
};

}  // namespace trireme::ops
