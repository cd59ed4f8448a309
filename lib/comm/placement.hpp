#pragma once
// Which ranks of a job stand on one node.
#include "lib/comm/communicator.hpp"

namespace trireme {

// Each node runs as many consecutive ranks; in a plan the last may run fewer.
struct Placement {
  int ranks_of_node = 1;
  int node(int rank) const { return rank / ranks_of_node; }
};

// Of a job that runs. Collective; SharedError where its nodes run different numbers of ranks, or
// not consecutive ones.
Placement placement_of(const Communicator& world);

}  // namespace trireme
