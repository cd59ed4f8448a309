#include "lib/launch/nodes.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/comm/agree.hpp"

namespace trireme::launch {

std::string test_node(int rank) {
  const char* const names = std::getenv("TRIREME_TEST_NODES");
  if (!names || !*names) return {};
  std::string_view left = names;
  for (int r = 0; r < rank; ++r) {
    const auto comma = left.find(',');
    require(comma != left.npos, "TRIREME_TEST_NODES = \"{}\" has no name for rank {}", names, rank);
    left.remove_prefix(comma + 1);
  }
  const auto name = left.substr(0, left.find(','));
  require(!name.empty() && name.find('/') == name.npos,
          "TRIREME_TEST_NODES = \"{}\" has no valid name for rank {}", names, rank);
  return std::string(name);
}

std::vector<int> nodes_of_ranks(const Communicator& world) {
  std::string mine;
  together(world, [&] { mine = test_node(world.rank()); });
  if (mine.empty()) {  // the node is named after its first rank
    double first = -world.rank();
    world.node().all_reduce_max({&first, 1});
    mine = std::to_string(static_cast<int>(-first));
  }
  std::vector<std::string> seen;
  std::vector<int> nodes;
  for (const auto& name : world.all_gather(mine)) {
    const auto found = std::ranges::find(seen, name);
    nodes.push_back(static_cast<int>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(name);
  }
  return nodes;
}

}  // namespace trireme::launch
