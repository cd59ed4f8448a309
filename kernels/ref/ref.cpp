#include "kernels/ref/ref.hpp"

#include "kernels/ref/kernels.hpp"

namespace trireme {

void Ref::copy(Queue, View dst, ConstView src, Accumulate how) {
  ref::copy(dst, src, how);
}

void Ref::fill(Queue, View v, double value) {
  ref::fill(v, value);
}

void Ref::matmul(Queue, View c, ConstView a, ConstView b, Accumulate how,
                 const Epilogue& epilogue) {
  ref::matmul(c, a, b, how, epilogue);
}

std::size_t Ref::attention_workspace(const AttentionShape& shape, DType,
                                     Direction direction) const {
  return ref::attention_workspace(shape, direction);
}

void Ref::attention(Queue, View o, View lse, ConstView q, ConstView k, ConstView v,
                    const AttentionShape& shape, View workspace) {
  ref::attention(o, lse, q, k, v, shape, workspace);
}

void Ref::attention_grad(Queue, View dq, View dk, View dv, ConstView d_o, ConstView o,
                         ConstView lse, ConstView q, ConstView k, ConstView v,
                         const AttentionShape& shape, View workspace) {
  ref::attention_grad(dq, dk, dv, d_o, o, lse, q, k, v, shape, workspace);
}

void Ref::layer_norm(Queue, View y, View mean, View rstd, ConstView x, ConstView w, ConstView b,
                     double eps) {
  ref::layer_norm(y, mean, rstd, x, w, b, eps);
}

void Ref::layer_norm_grad(Queue, View dx, View dw, View db, Accumulate how, ConstView dy,
                          ConstView x, ConstView w, ConstView mean, ConstView rstd) {
  ref::layer_norm_grad(dx, dw, db, how, dy, x, w, mean, rstd);
}

void Ref::rms_norm(Queue, View y, View rstd, ConstView x, ConstView w, double eps) {
  ref::rms_norm(y, rstd, x, w, eps);
}

void Ref::rms_norm_grad(Queue, View dx, View dw, Accumulate how, ConstView dy, ConstView x,
                        ConstView w, ConstView rstd) {
  ref::rms_norm_grad(dx, dw, how, dy, x, w, rstd);
}

void Ref::rotary(Queue, View x, ConstView table, Direction direction) {
  ref::rotary(x, table, direction);
}

void Ref::gelu(Queue, View y, ConstView x) {
  ref::gelu(y, x);
}

void Ref::gelu_grad(Queue, View dx, ConstView dy, ConstView x) {
  ref::gelu_grad(dx, dy, x);
}

void Ref::swiglu(Queue, View y, ConstView gate_up) {
  ref::swiglu(y, gate_up);
}

void Ref::swiglu_grad(Queue, View dgate_up, ConstView dy, ConstView gate_up) {
  ref::swiglu_grad(dgate_up, dy, gate_up);
}

void Ref::dropout(Queue, View y, ConstView x, ConstView skip, const DropoutKey& key,
                  const SampleRows& rows) {
  ref::dropout(y, x, skip, key, rows);
}

void Ref::embedding(Queue, View y, ConstView ids, ConstView table) {
  ref::embedding(y, ids, table);
}

void Ref::embedding_grad(Queue, View dtable, Accumulate how, ConstView dy, ConstView ids) {
  ref::embedding_grad(dtable, how, dy, ids);
}

void Ref::cross_entropy(Queue, View loss, Accumulate how, View logits, ConstView target,
                        double scale, Logits what) {
  ref::cross_entropy(loss, how, logits, target, scale, what);
}

void Ref::column_sum(Queue, View out, Accumulate how, ConstView x) {
  ref::column_sum(out, how, x);
}

void Ref::sgd(Queue, std::span<const SgdPart> parts) {
  for (const auto& p : parts) ref::sgd(p.master, p.copy, p.grad, p.how);
}

void Ref::adamw(Queue, std::span<const AdamWPart> parts) {
  for (const auto& p : parts) ref::adamw(p.master, p.m, p.v, p.copy, p.grad, p.how);
}

void Ref::sum_squares(Queue, View out, std::span<const ConstView> x) {
  for (std::size_t i = 0; i < x.size(); ++i)
    ref::sum_squares(out.slice(0, static_cast<std::int64_t>(i), 1), x[i]);
}

}  // namespace trireme
