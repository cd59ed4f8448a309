#pragma once
// Products cut by the shape alone, each piece on one thread: so bits depend neither on the number
// of threads nor on other work.
#include "kernels/host/onednn.hpp"

namespace trireme::host {

// In f32, where the rounding of oneDNN's kernels depends on where in a block an element is, as with
// those for AVX2.
void multiply_in_tiles(const Product&);

// Of any type: few large blocks of the longer side. sgemm: f32 without bias.
enum class Block : std::uint8_t { primitive, sgemm };
void multiply_in_blocks(const Product&, Block);

}  // namespace trireme::host
