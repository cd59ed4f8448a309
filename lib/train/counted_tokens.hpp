#pragma once
// Which tokens routers count, and which of them together: those of a sample, or of a document where
// documents stand apart. Padding is none. Pure.
#include <cstdint>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme {

// Has a share of samples documents that stand apart, or padding?
bool has_some_apart(const Batch& share);

// Place::counted_RBT of a rank of seq.
std::vector<std::int32_t> counted_tokens(const Batch& share, const ops::SequenceLayout&, int rank);

// How many of a rank's tokens are no padding.
std::int64_t count_tokens(const Batch& share, const ops::SequenceLayout&, int rank);

}  // namespace trireme
