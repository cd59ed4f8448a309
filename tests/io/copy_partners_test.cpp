#include "lib/io/copy_partners.hpp"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

using Ranks = std::vector<int>;

TEST(CopyPartners, OneNodeKeepsNoSecondCopy) {
  EXPECT_EQ(copy_receivers(Ranks{0}), Ranks{-1});
  EXPECT_EQ(copy_receivers(Ranks{0, 0, 0}), (Ranks{-1, -1, -1}));
}

TEST(CopyPartners, TwoNodesKeepEachOthers) {
  EXPECT_EQ(copy_receivers(Ranks{0, 0, 1, 1}), (Ranks{2, 3, 0, 1}));
  EXPECT_EQ(copy_receivers(Ranks{0, 1, 0, 1}), (Ranks{1, 0, 3, 2}));
}

TEST(CopyPartners, OfFourNodesThePartnerIsHalfOfThemAway) {
  EXPECT_EQ(copy_receivers(Ranks{0, 1, 2, 3}), (Ranks{2, 3, 0, 1}));
}

// A node with fewer ranks keeps several shards with one of its ranks.
TEST(CopyPartners, NodesMayHaveDifferentNumbersOfRanks) {
  EXPECT_EQ(copy_receivers(Ranks{0, 0, 0, 1}), (Ranks{3, 3, 3, 0}));
}

TEST(CopyPartners, EachNodeKeepsTheShardsOfExactlyOneOther) {
  for (int nodes = 2; nodes < 12; ++nodes)
    for (int of_node = 1; of_node < 4; ++of_node) {
      Ranks node_of;
      for (int r = 0; r < nodes * of_node; ++r) node_of.push_back(r / of_node);
      const auto receivers = copy_receivers(node_of);
      std::vector<std::set<int>> kept(static_cast<std::size_t>(nodes));
      std::set<int> distinct;
      for (std::size_t r = 0; r < receivers.size(); ++r) {
        const int node = node_of[r], keeper = receivers[r] / of_node;
        EXPECT_NE(node, keeper);
        kept[static_cast<std::size_t>(keeper)].insert(node);
        distinct.insert(receivers[r]);
      }
      for (const auto& k : kept) EXPECT_EQ(k.size(), 1U) << nodes << " nodes";
      EXPECT_EQ(distinct.size(), receivers.size());
    }
}

TEST(CopyPartners, BytesAreThoseOfOwnRanksAndOfAnotherNode) {
  const Ranks nodes{0, 0, 1};
  const std::vector<double> bytes{1, 10, 100};
  EXPECT_EQ(bytes_of_nodes(nodes, copy_receivers(nodes), bytes), (std::vector<double>{111, 111}));
  EXPECT_EQ(bytes_of_nodes(Ranks{0, 0, 0}, Ranks{-1, -1, -1}, bytes), (std::vector<double>{111}));
  const Ranks four{0, 1, 2, 3};
  const std::vector<double> of_four{1, 2, 4, 8};
  EXPECT_EQ(bytes_of_nodes(four, copy_receivers(four), of_four),
            (std::vector<double>{5, 10, 5, 10}));
}

}  // namespace
}  // namespace trireme
