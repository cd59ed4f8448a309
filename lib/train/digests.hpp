#pragma once
// Combines the digests of arrays on single ranks into digests of a whole model.
#include "lib/base/digest.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Returns the sum of the ranks' tables, which must list the same arrays. Collective.
DigestTable sum_over_ranks(const Communicator&, DigestTable);

// Returns one table with the arrays of both.
DigestTable joined(DigestTable, DigestTable);

}  // namespace trireme
