#pragma once
// The key-value cache for generation: keys and values of a sample's earlier positions. With the
// cache, each new token requires the computation of only one row.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme {

// The cached keys and values of one sample.
struct KeyValues {
  std::int64_t positions = 0;  // capacity in positions: P
  // Cached keys, then values, of this rank's key-value heads, indexed by block of the model. Each
  // tensor is [2, G, R, D] and is created when its block is first filled. Position p is in row p %
  // R. R is P, or less if the block's window needs fewer rows.
  std::vector<Tensor> of_block;
};

// How a Run uses key-value caches.
struct Cached {
  // `fill`: the run has one sample, from its first position on, and `rows` of its positions are
  // cached. `extend`: each row is the next position of one sample. The row attends to the sample's
  // cached positions and is appended to the cache. Every sequence-parallel rank has all rows.
  enum class Use : std::uint8_t { fill, extend };
  Use use = Use::fill;
  std::int64_t rows = 0;                    // for fill
  std::span<KeyValues* const> kept_B;       // one per sample
  std::span<const std::int64_t> at_B = {};  // for extend: position of each row
};

// Returns true if the run extends cached samples.
inline bool extends(const Run& run) {
  return run.cached && run.cached->use == Cached::Use::extend;
}

}  // namespace trireme
