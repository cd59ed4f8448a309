#pragma once
// Attention's ways with keys and values that are kept (key_values.hpp).
#include "lib/ops/heads.hpp"
#include "lib/ops/key_values.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

// Keeps the first run.cached->rows positions of this rank's heads for `block`.
void fill(const Run&, std::size_t block, const Packed& own);

// One row a sample, all heads packed as [B, 1, (H + 2G) D]: its attention, all heads [B, 1, H D].
// Each rank of seq works on its own heads and gets those of the others.
Tensor extend(const Run&, const Heads&, std::size_t block, const Tensor& qkv);

}  // namespace trireme::ops
