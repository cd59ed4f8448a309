#pragma once
// A tile of a product a b, whose operands are packed for it, on one thread: each element is one
// chain of FMAs in the order of K, whatever the layout of a and b and whatever stands beside it.
// No primitive is built, so K and the tile's size may differ each time; 85 to 90% of sgemm's rate
// (measured on Zen 5), and more for K up to 32.
#include "kernels/host/onednn.hpp"

namespace trireme::host {

inline constexpr std::int64_t tile_rows = 64, tile_columns = 128, tile_depth = 128;
inline constexpr std::int64_t tile_floats =
    tile_depth * (tile_rows + tile_columns) + tile_rows * tile_columns;

// Of up to tile_rows x tile_columns elements; a and b are of one type, f32 or bf16. Returns rows of
// sums, tile_columns apart, in `memory`, which has tile_floats.
const float* multiply_tile(const ConstView& a, const ConstView& b, float* memory);

// c = a b or c += a b; c in rows, of f32 or, where it is not added to, of their type.
void multiply_tile(const Product&, float* memory);

}  // namespace trireme::host
