#pragma once
// Attention's ways with keys and values that are kept (key_values.hpp).
#include "lib/ops/heads.hpp"
#include "lib/ops/key_values.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

// Of a block: its number in the model, its window, its sinks of all heads, or none, and its scores.
struct CachedBlock {
  std::size_t number;
  std::int64_t window;
  ConstView sink_H;
  Scores scores;
};

// Keeps keys and values of positions `at` and on, of this rank's heads [1, T, 2 G, D]: of the
// sample's first run.cached->rows those that later positions see. They come in order.
void fill(const Run&, const CachedBlock&, const View& kv_BTGD, std::int64_t at);

// One row a sample, all heads packed as [B, 1, (H + 2G) D]: its attention, all heads [B, 1, H D].
// Each rank of seq works on its own heads and gets those of the others.
Tensor extend(const Run&, const Heads&, const CachedBlock&, const Tensor& qkv);

}  // namespace trireme::ops
