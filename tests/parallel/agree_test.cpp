// Work that takes longer on one rank than others may wait.
#include "lib/comm/agree.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/parallel/world.hpp"
#include "tests/support/scratch.hpp"

namespace trireme::test {
namespace {

constexpr double limit = 1;  // seconds; many times a turn of ranks that outnumber cores

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

TEST(Agree, SlowWorkOfOneRankKeepsTheOthersWaiting) {
  if (world().size() != 3) GTEST_SKIP() << "for one that works and more than one that waits";
  world().configure({.hang_timeout = limit});
  int runs = 0;

  at_root(world(), Pace::slow, [&] { sleep(1.5 * limit), ++runs; });
  EXPECT_EQ(runs, world().rank() == 0 ? 1 : 0);

  const auto fails_late = [] {
    if (world().rank() == 2) sleep(1.5 * limit), fail("the disk is full");
  };
  EXPECT_EQ(message_of<SharedError>([&] { together(world(), Pace::slow, fails_late); }),
            "rank 2: the disk is full");
}

TEST(Agree, SlowWorkThatFailsFailsEverywhere) {
  const auto fails = [] { fail("the disk is full"); };
  EXPECT_EQ(message_of<SharedError>([&] { at_root(world(), Pace::slow, fails); }),
            "the disk is full");
  EXPECT_EQ(message_of<SharedError>([&] { together(world(), Pace::slow, fails); }),
            "the disk is full");
}

}  // namespace
}  // namespace trireme::test
