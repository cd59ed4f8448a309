#include "lib/train/copy_nodes.hpp"

#include <algorithm>
#include <cstddef>

#include "lib/io/copy_partners.hpp"
#include "lib/launch/nodes.hpp"

namespace trireme {

CopyNodes copy_nodes(const Communicator& world) {
  CopyNodes n{launch::nodes_of_ranks(world), {}, 0};
  n.receivers = copy_receivers(n.nodes);
  const auto mine = n.nodes[static_cast<std::size_t>(world.rank())];
  n.leader = static_cast<int>(std::ranges::find(n.nodes, mine) - n.nodes.begin());
  return n;
}

void broadcast(const Communicator& world, CopyOwner& owner) {
  world.broadcast(owner.run);
  world.broadcast(owner.start);
}

}  // namespace trireme
