#pragma once
// Products of few rows, each of whose elements is one chain of FMAs over K whatever stands beside
// it: SumOrder::by_row. What costs is to read b once from memory.
#include "kernels/host/onednn.hpp"

namespace trireme::host {

// a in rows, b' in rows; c of their type. Error naming what does not fit.
void multiply_few_rows(const Product&);

}  // namespace trireme::host
