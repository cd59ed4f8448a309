#pragma once
// Helpers that Experts and ExpertsOverRanks share: their inputs, and computations that both
// perform.
#include <utility>
#include <vector>

#include "kernels/operations.hpp"
#include "lib/autograd/op.hpp"
#include "lib/ops/router.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

// Inputs of both ops.
struct ExpertInputs {
  Tensor x_BTC{}, weight_TK{};
  ExpertOrder order{};
  Tensor skip_BTC{};  // absent if the op has no skip connection
};

// Indices of the inputs that have gradients. The tensors of ExpertOrder are between them.
enum In : std::uint8_t { in_x = 0, in_weight = 1, in_skip = 7 };

inline ExpertInputs inputs_of(std::vector<Tensor> in) {
  auto next = in.begin();
  const auto take = [&] { return next == in.end() ? Tensor{} : std::move(*next++); };
  return {take(), take(), {take(), take(), take(), take(), take()}, take()};
}

// Returns the skip connection as rows, or an absent view if the op has no skip connection.
inline ConstView skip_of(const ExpertInputs& in) {
  return in.skip_BTC ? ConstView(as_rows(in.skip_BTC)) : ConstView{};
}

// Returns a tensor with one number per choice of an expert as a matrix with one column.
inline View as_column(const Tensor& t) {
  return t.view().reshaped({t.shape().count(), 1});
}

// Sums for each token the rows of x_RC that row_TK lists. If skip_TC is present, adds the token's
// row of skip_TC.
inline Tensor sum_rows(const Run& run, const Tensor& x_RC, const Tensor& row_TK, const Shape& shape,
                       const ConstView& skip_TC, MemoryKind kind) {
  Tensor y = Tensor::empty(run.backend, shape, x_RC.dtype(), kind);
  run.backend.put(
      Queue::compute,
      kernel::SumRows{
          .y_TC = as_rows(y), .x_RC = x_RC.view(), .row_TK = row_TK.view(), .skip_TC = skip_TC});
  return y;
}

// Returns the wanted gradients of x, weight and skip. `dx_RC` has the gradients of the sorted rows,
// and `dweight_R1` has the gradients of their weights. ExpertOrder has `row_TK`.
inline std::vector<Tensor> experts_input_gradients(const Run& run, const Tensor& row_TK,
                                                   const Tensor& dy_BTC, const Tensor& dx_RC,
                                                   const Tensor& dweight_R1,
                                                   std::span<const std::uint8_t> wanted) {
  std::vector<Tensor> grad_in(wanted.size());
  if (wanted.size() > in_skip && wanted[in_skip]) grad_in[in_skip] = dy_BTC;
  if (wanted[in_weight])
    grad_in[in_weight] = take_rows(run, dweight_R1.view(), row_TK.view(), MemoryKind::transient)
                             .reshaped(row_TK.shape());
  if (wanted[in_x])
    grad_in[in_x] = sum_rows(run, dx_RC, row_TK, dy_BTC.shape(), {}, MemoryKind::transient);
  return grad_in;
}

// Returns the number of leaves (chunks of PassContext::exact_chunk tokens) on `ranks` ranks, or 0
// without exact sums.
inline std::int64_t leaves_of(const Run& run, const Tensor& x_BTC, int ranks) {
  const auto leaf = run.pass.exact_chunk;
  return leaf > 0 ? as_rows(x_BTC).extent[0] / leaf * ranks : 0;
}

}  // namespace trireme::ops
