#pragma once
// The distribution of a job's ranks over nodes.
#include <span>

#include "lib/comm/communicator.hpp"

namespace trireme {

// The assignment of ranks to nodes. Each node runs `ranks_of_node` consecutive ranks. In a plan,
// the last node may run fewer.
struct Placement {
  int ranks_of_node = 1;
  int before = 0;  // ranks of a larger job that precede rank 0 on its node
  int node(int rank) const { return (rank + before) / ranks_of_node; }
};

// Distribution of a group of ranks over nodes: `nodes` is the number of nodes with ranks of the
// group, and `fewest` is the smallest number of these ranks on one of the nodes.
struct NodeSpread {
  int nodes = 1, fewest = 1;
  bool operator==(const NodeSpread&) const = default;
};
// Returns the node spread of the given ranks. `ranks` must be in ascending order and not empty.
NodeSpread node_spread_of(const Placement&, std::span<const int> ranks);

// Returns the placement of a running job. Collective. Throws SharedError if nodes run different
// numbers of ranks, or if the ranks of a node are not consecutive.
Placement placement_of(const Communicator& world);

}  // namespace trireme
