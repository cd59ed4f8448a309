#pragma once
// The CPU backend: oneDNN products, vectorised kernels over all threads of the rank. f32 and bf16.
#include "kernels/immediate.hpp"

namespace trireme {

class Host final : public Immediate {
 public:
  // Sets the number of threads of this process' parallel loops and products.
  explicit Host(int threads, Poison poison = Poison::off);

  std::string_view name() const override { return "host"; }

  void copy(Queue, View dst, ConstView src, Accumulate) override;
  void fill(Queue, View, double) override;
  void matmul(Queue, View c, ConstView a, ConstView b, Accumulate, const Epilogue&) override;
  std::size_t attention_workspace(const AttentionShape&, DType, Direction) const override;
  void attention(Queue, View o, View lse, ConstView q, ConstView k, ConstView v,
                 const AttentionShape&, View workspace) override;
  void attention_grad(Queue, View dq, View dk, View dv, ConstView d_o, ConstView o, ConstView lse,
                      ConstView q, ConstView k, ConstView v, const AttentionShape&,
                      View workspace) override;
  void layer_norm(Queue, View y, View mean, View rstd, ConstView x, ConstView w, ConstView b,
                  double eps) override;
  void layer_norm_grad(Queue, View dx, View dw, View db, Accumulate, ConstView dy, ConstView x,
                       ConstView w, ConstView mean, ConstView rstd) override;
  void rms_norm(Queue, View y, View rstd, ConstView x, ConstView w, double eps) override;
  void rms_norm_grad(Queue, View dx, View dw, Accumulate, ConstView dy, ConstView x, ConstView w,
                     ConstView rstd) override;
  void rotary(Queue, View x, ConstView table, Direction) override;
  void gelu(Queue, View y, ConstView x) override;
  void gelu_grad(Queue, View dx, ConstView dy, ConstView x) override;
  void swiglu(Queue, View y, ConstView gate_up) override;
  void swiglu_grad(Queue, View dgate_up, ConstView dy, ConstView gate_up) override;
  void dropout(Queue, View y, ConstView x, ConstView skip, const DropoutKey&,
               const SampleRows&) override;
  void embedding(Queue, View y, ConstView ids, ConstView table) override;
  void embedding_grad(Queue, View dtable, Accumulate, ConstView dy, ConstView ids) override;
  void cross_entropy(Queue, View loss, Accumulate, View logits, ConstView target, double scale,
                     Logits) override;
  void column_sum(Queue, View out, Accumulate, ConstView x) override;
  void sgd(Queue, std::span<const SgdPart>) override;
  void adamw(Queue, std::span<const AdamWPart>) override;
  void sum_squares(Queue, View out_N, std::span<const ConstView> x) override;
};

}  // namespace trireme
