#pragma once
// Which ranks of a job stand on one node.
#include <span>

#include "lib/comm/communicator.hpp"

namespace trireme {

// Each node runs as many consecutive ranks; in a plan the last may run fewer.
struct Placement {
  int ranks_of_node = 1;
  int before = 0;  // ranks of the first node that are not counted: others' of a larger job
  int node(int rank) const { return (rank + before) / ranks_of_node; }
};

// On how many nodes some ranks stand, and how many of them on the node that has fewest.
struct NodeSpread {
  int nodes = 1, fewest = 1;
  bool operator==(const NodeSpread&) const = default;
};
// Of at least one rank, in ascending order.
NodeSpread node_spread_of(const Placement&, std::span<const int> ranks);

// Of a job that runs. Collective; SharedError where its nodes run different numbers of ranks, or
// not consecutive ones.
Placement placement_of(const Communicator& world);

}  // namespace trireme
