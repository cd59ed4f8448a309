#pragma once
// Attention's ways with keys and values that are kept (key_values.hpp).
#include "lib/ops/heads.hpp"
#include "lib/ops/key_values.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

// Keeps keys and values of positions `at` and on, of this rank's heads [1, T, 2 G, D], for `block`:
// those of the sample's first run.cached->rows. Positions come in order.
void fill(const Run&, std::size_t block, const View& kv_BTGD, std::int64_t at);

// One row a sample, all heads packed as [B, 1, (H + 2G) D]: its attention, all heads [B, 1, H D].
// Each rank of seq works on its own heads and gets those of the others.
Tensor extend(const Run&, const Heads&, std::size_t block, const Tensor& qkv);

}  // namespace trireme::ops
