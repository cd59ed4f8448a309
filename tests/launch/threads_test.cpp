#include "lib/launch/threads.hpp"

#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

int share(const std::vector<std::string>& all) {
  return share_of_processors(all[0], all);
}

TEST(Threads, ProcessorsAreDividedAmongThoseWhoMayUseThem) {
  EXPECT_EQ(share({"xxxx----"}), 4);
  EXPECT_EQ(share({"xxxx----", "----xxxx"}), 4);
  EXPECT_EQ(share({"xxxxxxxx", "xxxxxxxx"}), 4);
  EXPECT_EQ(share({"xxxx----", "xxxx----", "----xxxx", "----xxxx"}), 2);
  EXPECT_EQ(share({"xxxxxxxx", "xxxxxxxx", "xxxxxxxx"}), 2);
  EXPECT_EQ(share({"xxxx----", "---x----"}), 2);
}

TEST(Threads, ThereIsAlwaysOne) {
  EXPECT_EQ(share({"xx", "xx", "xx", "xx"}), 1);
  EXPECT_EQ(share({""}), 1);
}

TEST(Threads, PartialOverlapIsBadBinding) {
  const std::vector<std::string> apart{"xx--", "--xx"}, same{"xxxx", "xxxx"},
      partly{"xxx-", "--xx"};
  EXPECT_FALSE(badly_bound(apart));
  EXPECT_FALSE(badly_bound(same));
  EXPECT_TRUE(badly_bound(partly));
}

TEST(Threads, WhatIsWantedCounts) {
  EXPECT_EQ(threads_of_rank(7, Communicator()), 7);
}

}  // namespace
}  // namespace trireme::launch
