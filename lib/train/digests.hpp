#pragma once
// Digests of a whole model, out of what its ranks hold.
#include "lib/base/digest.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Collective. Adds the ranks' tables, which list the same arrays.
DigestTable sum_over_ranks(const Communicator&, DigestTable);

// One table with the arrays of both.
DigestTable joined(DigestTable, DigestTable);

}  // namespace trireme
