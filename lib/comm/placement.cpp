#include "lib/comm/placement.hpp"

#include <algorithm>
#include <array>

#include "lib/comm/agree.hpp"

namespace trireme {

NodeSpread node_spread_of(const Placement& p, std::span<const int> ranks) {
  NodeSpread s{0, static_cast<int>(ranks.size())};
  for (auto first = ranks.begin(); first != ranks.end(); ++s.nodes) {
    const auto next =
        std::find_if(first, ranks.end(), [&](int r) { return p.node(r) != p.node(*first); });
    s.fewest = std::min(s.fewest, static_cast<int>(next - first));
    first = next;
  }
  return s;
}

Placement placement_of(const Communicator& world) {
  const auto node = world.node();
  const double size = node.size(), first = world.rank() - node.rank();
  // Each pair yields a maximum and a negated minimum: of the number of ranks over all nodes, and of
  // the world rank minus the node rank over this node. The latter is constant if the node's ranks
  // are consecutive.
  std::array<double, 2> sizes{size, -size}, firsts{first, -first};
  world.all_reduce_max(sizes);
  node.all_reduce_max(firsts);
  double scattered = firsts[0] != -firsts[1];
  world.all_reduce_max({&scattered, 1});
  if (sizes[0] != -sizes[1])
    throw SharedError(fmt::format(
        "nodes run between {} and {} ranks, but zero.shard = \"node\" needs the same number on "
        "every node: use srun --ntasks-per-node, or set zero.shard to a number",
        -sizes[1], sizes[0]));
  if (scattered > 0)
    throw SharedError(
        "the ranks of a node are not consecutive, but zero.shard = \"node\" needs consecutive "
        "ranks: start them in blocks (srun --distribution=block, mpiexec -ppn N), or set "
        "zero.shard to a number");
  return {node.size()};
}

}  // namespace trireme
