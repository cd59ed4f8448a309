#pragma once
// Products in f32 where oneDNN's kernels round an element differently in another place of a block,
// as those for AVX2 do: cut into tiles by the shape alone, a thread each. So bits depend neither on
// the number of threads nor on who else computes.
#include "kernels/host/onednn.hpp"

namespace trireme::host {

void multiply_in_tiles(const Product&);

}  // namespace trireme::host
