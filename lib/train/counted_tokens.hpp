#pragma once
// Determines which tokens routers count in loads and balancing losses, and which tokens they count
// together. Those are the tokens of a sample or, if attention is limited to documents, of a
// document. Padding is not counted. All functions are pure.
#include <cstdint>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme {

// Returns true if the samples have padding, or documents with separate attention. Otherwise
// PassContext::counted_RBT is not needed.
bool has_some_apart(const Batch& share);

// Returns PassContext::counted_RBT for a sequence-parallel rank.
std::vector<std::int32_t> counted_tokens(const Batch& share, const ops::SequenceLayout&, int rank);

// Returns the number of the rank's tokens that are not padding.
std::int64_t count_tokens(const Batch& share, const ops::SequenceLayout&, int rank);

}  // namespace trireme
