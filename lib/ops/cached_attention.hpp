#pragma once
// Attention with cached keys and values (key_values.hpp), for generation.
#include "lib/ops/heads.hpp"
#include "lib/ops/key_values.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

// The properties of a block for cached attention: its index in the model, its window (0 means
// none), the sinks of all heads (absent if it has none) and its scores.
struct CachedBlock {
  std::size_t number;
  std::int64_t window;
  ConstView sink_H;
  Scores scores;
};

// Caches the keys and values [1, T, 2 G, D] of this rank's heads for positions from `at` on. Calls
// must be in order of position. Of the sample's first run.cached->rows positions, only those that
// later positions can see are kept.
void fill(const Run&, const CachedBlock&, const View& kv_BTGD, std::int64_t at);

// Returns the attention [B, 1, H D] of one new row per sample. `qkv` has all heads packed as [B, 1,
// (H + 2G) D]. Each rank of `seq` computes its own heads and receives the others.
Tensor extend(const Run&, const Heads&, const CachedBlock&, const Tensor& qkv);

}  // namespace trireme::ops
