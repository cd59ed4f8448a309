#pragma once
// What generation keeps of a sample: the keys and values of its positions so far, so that a next
// position costs one row and not the whole context.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme {

struct KeyValues {
  std::int64_t positions = 0;  // that there is room for: P
  // By block of the model, [2, G, R, D]: keys, then values, of this rank's key/value heads; made
  // when the block fills them. Position p is row p % R; R is P, or less where a window needs less.
  std::vector<Tensor> of_block;
};

// What a Run's blocks do with them.
struct Cached {
  // fill: the run has one sample from its first position on, and keeps `rows` positions of it.
  // extend: a row is one sample's next position, which sees what is kept of that sample and joins
  // it; every rank of seq has all rows.
  enum class Use : std::uint8_t { fill, extend };
  Use use = Use::fill;
  std::int64_t rows = 0;                    // fill
  std::span<KeyValues* const> kept_B;       // one a sample
  std::span<const std::int64_t> at_B = {};  // extend: positions
};

inline bool extends(const Run& run) {
  return run.cached && run.cached->use == Cached::Use::extend;
}

}  // namespace trireme
