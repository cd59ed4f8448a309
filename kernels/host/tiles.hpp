#pragma once
// Products in f32 where oneDNN's kernels round an element differently in another place of a block,
// as those for AVX2 do: cut into tiles by the shape alone, a thread each. So bits depend neither on
// the number of threads nor on who else computes.
#include "kernels/backend.hpp"

namespace trireme::host {

// c = a b + bias, or c += a b + bias. Matrices as in onednn.hpp; bias may be absent.
void multiply_in_tiles(const View& c_MN, const ConstView& a_MK, const ConstView& b_KN, Accumulate,
                       const ConstView& bias_N);

}  // namespace trireme::host
