#include "lib/comm/placement.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {

TEST(NodeSpreadOf, CountsTheNodesThatAGroupTouches) {
  const auto spread = [](Placement p, std::vector<int> ranks) { return node_spread_of(p, ranks); };

  EXPECT_EQ(spread({4}, {5}), (NodeSpread{1, 1}));
  EXPECT_EQ(spread({4}, {0, 1, 2, 3, 4, 5}), (NodeSpread{2, 2}));
  // One that begins within a node: two there, four on the next.
  EXPECT_EQ(spread({4}, {6, 7, 8, 9, 10, 11}), (NodeSpread{2, 2}));
  EXPECT_EQ(spread({4}, {3, 4, 5, 6, 7, 8}), (NodeSpread{3, 1}));
  EXPECT_EQ(spread({4}, {0, 2, 4, 6}), (NodeSpread{2, 2}));
  // The second half of a job whose first half has three ranks of the first node.
  EXPECT_EQ(spread({4, 3}, {0, 1, 2}), (NodeSpread{2, 1}));
}

}  // namespace trireme
