#include "lib/base/counted.hpp"

#include <gtest/gtest.h>

namespace trireme {

TEST(Counted, NounsAreSingularOrPlural) {
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(2, "step"), "2 steps");
}

TEST(Counted, LargeCountsAreRounded) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(9999), "9999");
  EXPECT_EQ(count_text(10'000), "10.00K");
  EXPECT_EQ(count_text(123'456), "123.46K");
  EXPECT_EQ(count_text(999'994), "999.99K");
  EXPECT_EQ(count_text(999'999), "1.00M");
  EXPECT_EQ(count_text(84'934'656), "84.93M");
  EXPECT_EQ(count_text(1'100'048'384), "1100.05M");
}

}  // namespace trireme
