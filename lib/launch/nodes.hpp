#pragma once
// The nodes on which the ranks of a job run.
#include <string>
#include <vector>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// Returns the name that a test gives to the node of this rank, or an empty string outside tests.
// The environment variable TRIREME_TEST_NODES lists these names, one for each rank, separated by
// commas. One machine then behaves like several nodes where nodes keep copies for each other.
// Throws Error if the list has no name for the rank.
std::string test_node(int rank);

// Returns the number of each rank's node. Nodes are numbered in the order of their first ranks.
// Ranks are on the same node if they share memory or, in a test, if their nodes have the same name.
// Collective.
std::vector<int> nodes_of_ranks(const Communicator& world);

}  // namespace trireme::launch
