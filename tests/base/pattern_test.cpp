#include "lib/base/pattern.hpp"

#include <gtest/gtest.h>

namespace trireme {

TEST(Patterns, MatchWholeNames) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*c", "abbc"));
  EXPECT_TRUE(matches("*.weight", "blocks.0.qkv.weight"));
  EXPECT_TRUE(matches("a?c*", "abc"));
  EXPECT_FALSE(matches("a?c", "ac"));
  EXPECT_FALSE(matches("qkv", "blocks.0.qkv"));
  EXPECT_TRUE(matches("*a*b", "xaab"));
}

}  // namespace trireme
