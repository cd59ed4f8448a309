#pragma once
// Which nodes of a job keep the memory copies of which ranks (lib/io/copy_partners.hpp), and which
// start of the run the copies belong to.
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/io/memory_copies.hpp"

namespace trireme {

// The nodes of a job's ranks, and the ranks that keep second copies.
struct CopyNodes {
  std::vector<int> nodes;      // number of each rank's node
  std::vector<int> receivers;  // by rank (copy_receivers)
  int leader = 0;              // first rank of this rank's node
};
// Returns the nodes of this job. Collective.
CopyNodes copy_nodes(const Communicator& world);

// Replaces the owner on all ranks by that of rank 0. Collective.
void broadcast(const Communicator& world, CopyOwner&);

}  // namespace trireme
