#pragma once
// Lengths of the documents in a run's samples, which determine the work of attention within
// documents.
#include <cstdint>
#include <vector>

namespace trireme {

// Lengths of the documents in a selection of samples.
struct DocumentLengths {
  std::int64_t context = 0;  // tokens of a sample
  // Number of tokens of each document or part of a document in these samples. A position of padding
  // is a document of one token. Empty if nothing is known.
  std::vector<std::int64_t> lengths;
  // Fractions of the positions that are not padding, and that have a target.
  double filled = 1, targets = 1;

  // Returns the number of (query, key) pairs with attention within documents, as a fraction of the
  // pairs with causal attention. `window` is the sliding window in tokens, or 0. Returns 1 if
  // nothing is known.
  double share_of_pairs(std::int64_t window) const;
};

}  // namespace trireme
