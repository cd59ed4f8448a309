#include "lib/base/byte_range.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Ranges = std::vector<ByteRange>;

TEST(ByteRange, RangesOutsideOthersAreTheRestOfTheFile) {
  EXPECT_EQ(ranges_outside({}, 10, 1), (Ranges{{0, 10}}));
  EXPECT_EQ(ranges_outside({{0, 10}}, 10, 1), Ranges{});
  EXPECT_EQ(ranges_outside({{6, 8}, {0, 2}}, 10, 1), (Ranges{{2, 6}, {8, 10}}));
  EXPECT_EQ(ranges_outside({{4, 10}}, 10, 1), (Ranges{{0, 4}}));
}

TEST(ByteRange, ShortRangesAreNotLeftOut) {
  EXPECT_EQ(ranges_outside({{2, 4}, {6, 9}}, 10, 3), (Ranges{{0, 6}, {9, 10}}));
  EXPECT_EQ(ranges_outside({{4, 6}, {2, 4}}, 10, 3), (Ranges{{0, 2}, {6, 10}}));  // adjacent
}

}  // namespace
}  // namespace trireme
