#include "kernels/host/host.hpp"

#include <omp.h>
#include <Kokkos_Core.hpp>

#include "kernels/host/kernels.hpp"
#include "kernels/host/parallel.hpp"

namespace trireme {

// Kokkos starts once a process and is finished when the process ends.
static void start_kokkos() {
  static Kokkos::ScopeGuard guard{};
}

Host::Host(int threads, Poison poison) : Immediate(poison) {
  expect(threads >= 1, "a rank has a thread");
  omp_set_num_threads(threads);
  start_kokkos();
  // A chunk for each thread, so that products, which run on the same ones, flush denormals too.
  host::for_chunks(threads, 1, [](std::int64_t, std::int64_t) {});
}

void Host::copy(Queue, View dst, ConstView src, Accumulate how) {
  host::copy(dst, src, how);
}

void Host::fill(Queue, View v, double value) {
  host::fill(v, value);
}

void Host::matmul(Queue, View c, ConstView a, ConstView b, Accumulate how,
                  const Epilogue& epilogue) {
  host::matmul(c, a, b, how, epilogue, scratch());
}

std::size_t Host::attention_workspace(const AttentionShape& shape, DType dtype,
                                      Direction direction) const {
  return host::attention_workspace(shape, dtype, direction);
}

void Host::attention(Queue, View o, View lse, ConstView q, ConstView k, ConstView v,
                     const AttentionShape& shape, View workspace) {
  host::attention(o, lse, q, k, v, shape, workspace);
}

void Host::attention_grad(Queue, View dq, View dk, View dv, ConstView d_o, ConstView o,
                          ConstView lse, ConstView q, ConstView k, ConstView v,
                          const AttentionShape& shape, View workspace) {
  host::attention_grad(dq, dk, dv, d_o, o, lse, q, k, v, shape, workspace);
}

void Host::layer_norm(Queue, View y, View mean, View rstd, ConstView x, ConstView w, ConstView b,
                      double eps) {
  host::layer_norm(y, mean, rstd, x, w, b, eps);
}

void Host::layer_norm_grad(Queue, View dx, View dw, View db, Accumulate how, ConstView dy,
                           ConstView x, ConstView w, ConstView mean, ConstView rstd) {
  host::layer_norm_grad(dx, dw, db, how, dy, x, w, mean, rstd, scratch());
}

void Host::rms_norm(Queue, View y, View rstd, ConstView x, ConstView w, double eps) {
  host::rms_norm(y, rstd, x, w, eps);
}

void Host::rms_norm_grad(Queue, View dx, View dw, Accumulate how, ConstView dy, ConstView x,
                         ConstView w, ConstView rstd) {
  host::rms_norm_grad(dx, dw, how, dy, x, w, rstd, scratch());
}

void Host::rotary(Queue, View x, ConstView table, Direction direction) {
  host::rotary(x, table, direction);
}

void Host::gelu(Queue, View y, ConstView x) {
  host::gelu(y, x);
}

void Host::gelu_grad(Queue, View dx, ConstView dy, ConstView x) {
  host::gelu_grad(dx, dy, x);
}

void Host::swiglu(Queue, View y, ConstView gate_up) {
  host::swiglu(y, gate_up);
}

void Host::swiglu_grad(Queue, View dgate_up, ConstView dy, ConstView gate_up) {
  host::swiglu_grad(dgate_up, dy, gate_up);
}

void Host::dropout(Queue, View y, ConstView x, ConstView skip, const DropoutKey& key,
                   const SampleRows& rows) {
  host::dropout(y, x, skip, key, rows);
}

void Host::embedding(Queue, View y, ConstView ids, ConstView table) {
  host::embedding(y, ids, table);
}

void Host::embedding_grad(Queue, View dtable, Accumulate how, ConstView dy, ConstView ids) {
  host::embedding_grad(dtable, how, dy, ids, scratch());
}

void Host::cross_entropy(Queue, View loss, Accumulate how, View logits, ConstView target,
                         double scale, Logits what) {
  host::cross_entropy(loss, how, logits, target, scale, what, scratch());
}

void Host::column_sum(Queue, View out, Accumulate how, ConstView x) {
  host::column_sum(out, how, x, scratch());
}

void Host::sgd(Queue, std::span<const SgdPart> parts) {
  for (const auto& p : parts) host::sgd(p.master, p.copy, p.grad, p.how);
}

void Host::adamw(Queue, std::span<const AdamWPart> parts) {
  for (const auto& p : parts) host::adamw(p.master, p.m, p.v, p.copy, p.grad, p.how);
}

void Host::sum_squares(Queue, View out, std::span<const ConstView> x) {
  for (std::size_t i = 0; i < x.size(); ++i)
    host::sum_squares(out.slice(0, static_cast<std::int64_t>(i), 1), x[i], scratch());
}

}  // namespace trireme
