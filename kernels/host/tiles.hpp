#pragma once
// Products in f32 where the rounding of oneDNN's kernels depends on where in a block an element is,
// as with those for AVX2: cut into tiles by the shape alone, a thread each. So bits depend neither
// on the number of threads nor on other work.
#include "kernels/host/onednn.hpp"

namespace trireme::host {

void multiply_in_tiles(const Product&);

}  // namespace trireme::host
