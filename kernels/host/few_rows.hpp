#pragma once
// Products each of whose elements is one chain of FMAs over K for each lane of a vector, whatever
// stands beside it: SumOrder::by_row. Made for few rows, where what costs is to read b once from
// memory; many rows take twice the time of other products in f32, in bf16 up to five times that of
// the processor's own.
#include "kernels/host/onednn.hpp"

namespace trireme::host {

// a in rows; b of any layout, which no bit depends on; c of their type or f32. Error naming what
// does not fit.
void multiply_few_rows(const Product&);

// The same on the calling thread alone.
void multiply_few_rows_alone(const Product&);

}  // namespace trireme::host
