#pragma once
// Single-threaded multiplication of one tile of a product a b. Both operands are first packed. Each
// element is one chain of FMAs in the order of K, independent of the layout of a and b and of the
// rest of the tile. No oneDNN primitive is built, so K and the size of the tile may differ in each
// call. The rate is 85 to 90% of sgemm's (measured on Zen 5), and higher than sgemm's for K up to
// 32.
#include "kernels/host/onednn.hpp"

namespace trireme::host {

inline constexpr std::int64_t tile_rows = 64, tile_columns = 128, tile_depth = 128;
inline constexpr std::int64_t tile_floats =
    tile_depth * (tile_rows + tile_columns) + tile_rows * tile_columns;

// Multiplies a tile of at most tile_rows x tile_columns elements. a and b have the same type, f32
// or bf16. `memory` has tile_floats floats. Returns a pointer to the sums, which are stored in
// `memory`, in rows that are tile_columns apart.
const float* multiply_tile(const ConstView& a, const ConstView& b, float* memory);

// Computes c = a b, or c += a b. c is row-major. c has type f32 or, if it is overwritten, may have
// the type of a and b.
void multiply_tile(const Product&, float* memory);

}  // namespace trireme::host
