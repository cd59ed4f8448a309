#pragma once
// What Experts and ExpertsOverRanks take and save, by place, and what both do with it.
#include <vector>

#include "kernels/operations.hpp"
#include "lib/autograd/op.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

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
// What both save first.
enum Kept : std::uint8_t { kept_x, kept_offset, kept_token, kept_row, kept_weight, end_kept };

inline ConstView skip_of(const std::vector<Tensor>& in) {
  return in.size() > in_skip ? ConstView(as_rows(in[in_skip])) : ConstView{};
}

// One number for each choice, as rows of one column.
inline View as_column(const Tensor& t) {
  return t.view().reshaped({t.shape().count(), 1});
}

inline Tensor sum_rows(const Run& run, const Tensor& x_RC, const Tensor& row_TK, const Shape& shape,
                       const ConstView& skip_TC, Kind kind) {
  Tensor y = Tensor::empty(run.backend, shape, x_RC.dtype(), kind);
  run.backend.put(
      Queue::compute,
      kernel::SumRows{
          .y_TC = as_rows(y), .x_RC = x_RC.view(), .row_TK = row_TK.view(), .skip_TC = skip_TC});
  return y;
}

// The gradients of x, weight and skip that are wanted, from those of rows and of choices.
inline std::vector<Tensor> experts_input_gradients(const Run& run, const Saved& saved,
                                                   const Tensor& dy_BTC, const Tensor& dx_RC,
                                                   const Tensor& dweight_R1,
                                                   std::span<const std::uint8_t> wanted) {
  std::vector<Tensor> grad_in(wanted.size());
  const Tensor& row_TK = saved[kept_row];
  if (wanted.size() > in_skip && wanted[in_skip]) grad_in[in_skip] = dy_BTC;
  if (wanted[in_weight])
    grad_in[in_weight] =
        take_rows(run, dweight_R1.view(), row_TK.view(), Kind::transient).reshaped(row_TK.shape());
  if (wanted[in_x])
    grad_in[in_x] = sum_rows(run, dx_RC, row_TK, saved[kept_x].shape(), {}, Kind::transient);
  return grad_in;
}

// Of the tokens of as many ranks.
inline std::int64_t leaves_of(const Run& run, const Tensor& x_BTC, int ranks) {
  const auto leaf = run.place.exact_chunk;
  return leaf > 0 ? as_rows(x_BTC).extent[0] / leaf * ranks : 0;
}

}  // namespace trireme::ops
