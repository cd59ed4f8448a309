#pragma once
// Combines array digests of single ranks into digests of the whole model.
#include "lib/base/digest.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Returns the sum of the ranks' tables, which must list the same arrays. Collective.
DigestTable sum_over_ranks(const Communicator&, DigestTable);

// Returns one table with the arrays of both tables.
DigestTable joined(DigestTable, DigestTable);

}  // namespace trireme
