#pragma once
// Lengths of the documents in a run's samples, which determine the work of attention within
// documents.
#include <cstdint>
#include <map>

namespace trireme {

// Lengths of the documents in a selection of samples.
struct DocumentLengths {
  std::int64_t context = 0;  // tokens of a sample
  // Maps each length in tokens to the number of documents, or parts of documents, of this length in
  // the samples. A position of padding is a document of one token. Empty if attention is causal or
  // nothing is known.
  std::map<std::int64_t, std::int64_t> lengths;
  // Fraction of the positions that are not padding.
  double filled = 1;
  // Fraction of the positions that have a target. 0 if unknown.
  double targets = 0;

  // Returns the number of (query, key) pairs with attention within documents, as a fraction of the
  // pairs with causal attention. `window` is the sliding window in tokens, or 0. Returns 1 if
  // nothing is known.
  double share_of_pairs(std::int64_t window) const;
};

}  // namespace trireme
