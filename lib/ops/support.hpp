#pragma once
// Helper functions that several ops use.
#include <span>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

// Returns rows [begin, end) of a view's first dim.
template <class Byte>
BasicView<Byte> rows_of(const BasicView<Byte>& v, Rows r) {
  return v.slice(0, r.begin, r.end - r.begin);
}

// Returns a tensor [.., C] as a matrix with C columns.
View as_rows(const Tensor&);

// Returns the tensor itself if no other Tensor shares its memory. Otherwise returns a copy. The
// caller may overwrite the result.
Tensor owned(const Run&, Tensor, MemoryKind);

// Views of the queries, keys and values in packed projections qkv_BT(H+2G)D.
struct Packed {
  View q_BTHD, k_BTGD, v_BTGD;
};
Packed unpack(const Tensor& qkv, const Heads&);

// Returns the sinks of a range of heads, or an absent view if there are no sinks.
ConstView sinks_of(const ConstView& sink_H, HeadRange);

// Returns the order in which a matrix product must add its terms. With run.exactness = "invariant",
// the order depends only on shapes.
SumOrder sum_order(const Run&);

// Returns the sum order for products whose rows are grouped by expert. With run.exactness =
// "invariant", and in generation, the bits of a row do not depend on other rows.
SumOrder sum_order_of_rows(const Run&);

// Computes a product whose rows are tokens. If PassContext::exact_chunk is set, the product is
// computed in blocks of that many rows. In generation with cached keys and values, the bits of a
// row do not depend on other rows.
void multiply_rows(const Run&, const kernel::Matmul&);

// Allocates a tensor with `rows` rows, which have the width and type of x_TC.
Tensor room_for_rows(const Run&, const ConstView& x_TC, std::int64_t rows, MemoryKind);
// Returns the rows of x_TC that ids_R lists.
Tensor take_rows(const Run&, const ConstView& x_TC, const ConstView& ids_R, MemoryKind);

// Returns true if the gradient of any of `params` is wanted.
bool wants_any(const Run&, std::span<const ParamId> params);

}  // namespace trireme::ops
