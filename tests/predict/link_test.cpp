#include "lib/predict/link.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {

TEST(Link, IsOnesAloneWhereNoOtherIs) {
  Link link;

  EXPECT_EQ(link.add(2, 3), 5);
  EXPECT_EQ(link.add(0, 1), 1);
  EXPECT_EQ(link.add(5, 1), 6);
  EXPECT_EQ(link.add(3, 0), 3);
}

TEST(Link, IsSharedEvenly) {
  Link link;
  link.add(0, 4);

  EXPECT_EQ(link.add(1, 1), 3);    // half of 1 to 3
  EXPECT_EQ(link.add(3, 2), 6);    // half of 3 to 5, as the first one has a second left, then alone
  EXPECT_EQ(link.add(6, 1), 7.5);  // and half of the second that the last one was slowed by
}

// As long as there is work, the link does all it can.
TEST(Link, LosesNoTime) {
  Link link;
  double gather = 0, scatter = 0;
  for (int i = 0; i < 100; ++i) {
    gather = link.add(gather, 1);
    scatter = link.add(scatter, 1);
  }

  EXPECT_NEAR(std::max(gather, scatter), 200, 2);
}

}  // namespace trireme
