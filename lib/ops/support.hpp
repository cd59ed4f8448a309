#pragma once
// Helpers that the ops share.
#include <span>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

// Rows [begin, end) of a view's first dim.
template <class Byte>
BasicView<Byte> rows_of(const BasicView<Byte>& v, Rows r) {
  return v.slice(0, r.begin, r.end - r.begin);
}

// [.., C] as a matrix of rows.
View as_rows(const Tensor&);

// The tensor itself where nobody else holds it, so that it may be overwritten; else a copy.
Tensor owned(const Run&, Tensor, Kind);

// The heads of packed projections qkv_BT(H+2G)D.
struct Packed {
  View q_BTHD, k_BTGD, v_BTGD;
};
Packed unpack(const Tensor& qkv, const Heads&);

// Of these heads; absent where there are none.
ConstView sinks_of(const ConstView& sink_H, HeadRange);

// run.exactness = "invariant" asks for sums by shape alone.
SumOrder sum_order(const Run&);

// The order of a product's sums whose rows may stand beside any others: grouped by expert.
SumOrder sum_order_of_rows(const Run&);

// A product whose rows are tokens; in blocks of Place::exact_chunk where that is set.
void multiply_rows(const Run&, const kernel::Matmul&);

// Memory for rows as wide as these.
Tensor room_for_rows(const Run&, const ConstView& x_TC, std::int64_t rows, Kind);
// Rows of x_TC, by ids.
Tensor take_rows(const Run&, const ConstView& x_TC, const ConstView& ids_R, Kind);

// Is the gradient of one of `params` wanted?
bool wants_any(const Run&, std::span<const ParamId> params);

}  // namespace trireme::ops
