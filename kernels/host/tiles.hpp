#pragma once
// Matrix products that are divided into pieces by their shape alone. One thread computes each
// piece. The bits therefore depend neither on the number of threads nor on other work.
#include "kernels/host/onednn.hpp"

namespace trireme::host {

// Multiplies in f32, in tiles. Callers use this function on processors where the rounding of
// oneDNN's kernels depends on an element's position in a block. This is the case for oneDNN's AVX2
// kernels.
void multiply_in_tiles(const Product&);

// Function of oneDNN that multiplies a block: its matmul primitive for any type, or sgemm for f32
// without a bias.
enum class Block : std::uint8_t { primitive, sgemm };
// Multiplies in a few large blocks along the longer side of c.
void multiply_in_blocks(const Product&, Block);

}  // namespace trireme::host
