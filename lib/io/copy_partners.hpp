#pragma once
// Decides which rank keeps the second copy of each rank's shard in the memory of another node.
#include <span>
#include <vector>

namespace trireme {

// Memory copies that a node holds at a time: the newest complete one, and the one that is being
// written.
inline constexpr int memory_copies_at_a_time = 2;

// Returns, for each rank, the rank that keeps a copy of its shard, or -1 if there is only one node.
// `nodes` contains the number of each rank's node. The nodes are numbered from 0 without gaps.
// All ranks of a node have their copies on the same other node, which is half of the nodes away, so
// that nodes that share a switch or a power supply rarely keep each other's copies. Each node keeps
// the copies of exactly one other node.
std::vector<int> copy_receivers(std::span<const int> nodes);

// Returns the bytes of one memory copy on each node: the shards of its own ranks and those that it
// keeps for another node. `bytes` contains the size of each rank's shard.
std::vector<double> bytes_of_nodes(std::span<const int> nodes, std::span<const int> receivers,
                                   std::span<const double> bytes);

}  // namespace trireme
