#include "lib/predict/link.hpp"

#include <gtest/gtest.h>

namespace trireme {

TEST(Link, GivesTheFirstFreeTime) {
  Link link;
  EXPECT_EQ(link.take(2, 3), 5);    // 2 to 5
  EXPECT_EQ(link.take(0, 1), 1);    // 0 to 1
  EXPECT_EQ(link.take(3, 2), 7);    // 5 to 7
  EXPECT_EQ(link.take(0.5, 2), 8);  // 1 to 2, 7 to 8
  EXPECT_EQ(link.take(10, 1), 11);
  EXPECT_EQ(link.take(0, 3), 12);  // 8 to 10, 11 to 12
  EXPECT_EQ(link.take(1, 0), 1);
}

}  // namespace trireme
