#pragma once
// Attention with cached keys and values (key_values.hpp), for generation.
#include "lib/ops/heads.hpp"
#include "lib/ops/key_values.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

// The properties that cached attention needs of a block: its index in the model, its window (0
// means none), the sinks of all heads (absent if the block has none) and the settings of its
// scores.
struct CachedBlock {
  std::size_t number;
  std::int64_t window;
  ConstView sink_H;
  Scores scores;
};

// Caches the keys and values [1, T, 2 G, D] of this rank's heads for positions from `at` on. Calls
// must be in order of position. Of the sample's first run.cached->rows positions, the cache keeps
// only those that later positions can attend to.
void fill(const Run&, const CachedBlock&, const View& kv_BTGD, std::int64_t at);

// Returns the attention output [B, 1, H D] of one new row per sample. `qkv` contains all heads,
// packed as [B, 1, (H + 2G) D]. Each sequence-parallel rank computes its own heads and receives the
// other heads from the other ranks.
Tensor extend(const Run&, const Heads&, const CachedBlock&, const Tensor& qkv);

}  // namespace trireme::ops
