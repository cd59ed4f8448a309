#include "lib/io/copy_partners.hpp"

#include <algorithm>
#include <cstddef>

namespace trireme {

std::vector<int> copy_receivers(std::span<const int> nodes) {
  const auto most = std::ranges::max_element(nodes);
  const auto count = most == nodes.end() ? std::size_t{0} : static_cast<std::size_t>(*most) + 1;
  std::vector<int> receivers(nodes.size(), -1);
  if (count < 2) return receivers;
  std::vector<std::vector<int>> ranks(count);
  for (std::size_t r = 0; r < nodes.size(); ++r)
    ranks[static_cast<std::size_t>(nodes[r])].push_back(static_cast<int>(r));
  for (std::size_t n = 0; n < count; ++n) {
    const auto& there = ranks[(n + count / 2) % count];
    for (std::size_t i = 0; i < ranks[n].size(); ++i)
      receivers[static_cast<std::size_t>(ranks[n][i])] = there[i % there.size()];
  }
  return receivers;
}

std::vector<double> bytes_of_nodes(std::span<const int> nodes, std::span<const int> receivers,
                                   std::span<const double> bytes) {
  std::vector<double> sums;
  const auto add = [&](int rank, double size) {
    const auto node = static_cast<std::size_t>(nodes[static_cast<std::size_t>(rank)]);
    sums.resize(std::max(sums.size(), node + 1));
    sums[node] += size;
  };
  for (std::size_t r = 0; r < nodes.size(); ++r) {
    add(static_cast<int>(r), bytes[r]);
    if (receivers[r] >= 0) add(receivers[r], bytes[r]);
  }
  return sums;
}

}  // namespace trireme
