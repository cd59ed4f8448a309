#pragma once
// Helpers that the ops share.
#include <span>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

// Rows [begin, end) of a view's first dim.
template <class Byte>
BasicView<Byte> rows_of(const BasicView<Byte>& v, Rows r) {
  return v.slice(0, r.begin, r.end - r.begin);
}

// [.., C] as a matrix of rows.
View as_rows(const Tensor&);

// run.exactness = "invariant" asks for sums by shape alone.
SumOrder sum_order(const Run&);

// A product whose rows are tokens; in blocks of Place::exact_chunk where that is set.
void multiply_rows(const Run&, const kernel::Matmul&);

// Is the gradient of one of `params` wanted?
bool wants_any(const Run&, std::span<const ParamId> params);

}  // namespace trireme::ops
