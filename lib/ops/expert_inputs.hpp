#pragma once
// Helpers that Experts and ExpertsOverRanks share: indices of their inputs and saved tensors, and
// computations that both perform.
#include <vector>

#include "kernels/operations.hpp"
#include "lib/autograd/op.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

// Indices of the inputs of both ops.
enum In : std::uint8_t {
  in_x,
  in_weight,
  in_offset,
  in_token,
  in_choice,
  in_row,
  in_count,
  in_skip
};
// Indices, in Saved, of the tensors that both ops save for the backward pass. Other tensors follow
// them.
enum Kept : std::uint8_t { kept_x, kept_offset, kept_token, kept_row, kept_weight, end_kept };

// Returns the skip connection as rows, or an absent view if the op has no skip connection.
inline ConstView skip_of(const std::vector<Tensor>& in) {
  return in.size() > in_skip ? ConstView(as_rows(in[in_skip])) : ConstView{};
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
// and `dweight_R1` has the gradients of their weights.
inline std::vector<Tensor> experts_input_gradients(const Run& run, const Saved& saved,
                                                   const Tensor& dy_BTC, const Tensor& dx_RC,
                                                   const Tensor& dweight_R1,
                                                   std::span<const std::uint8_t> wanted) {
  std::vector<Tensor> grad_in(wanted.size());
  const Tensor& row_TK = saved[kept_row];
  if (wanted.size() > in_skip && wanted[in_skip]) grad_in[in_skip] = dy_BTC;
  if (wanted[in_weight])
    grad_in[in_weight] = take_rows(run, dweight_R1.view(), row_TK.view(), MemoryKind::transient)
                             .reshaped(row_TK.shape());
  if (wanted[in_x])
    grad_in[in_x] = sum_rows(run, dx_RC, row_TK, saved[kept_x].shape(), {}, MemoryKind::transient);
  return grad_in;
}

// Returns the number of leaves (chunks of PassContext::exact_chunk tokens) on `ranks` ranks, or 0
// without exact sums.
inline std::int64_t leaves_of(const Run& run, const Tensor& x_BTC, int ranks) {
  const auto leaf = run.pass.exact_chunk;
  return leaf > 0 ? as_rows(x_BTC).extent[0] / leaf * ranks : 0;
}

}  // namespace trireme::ops
