#include "lib/launch/drain.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <future>
#include <thread>

namespace trireme {
namespace {

using namespace std::chrono_literals;

TEST(Drain, WaitsForWhoReadsThePipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_TRUE(wait_until_read(ends[1], 0ms));
  ASSERT_EQ(write(ends[1], "why", 3), 3);
  EXPECT_FALSE(wait_until_read(ends[1], 0ms));
  auto waits = std::async(std::launch::async, [&] { return wait_until_read(ends[1], 30s); });
  EXPECT_EQ(waits.wait_for(20ms), std::future_status::timeout);

  std::array<char, 3> text{};
  EXPECT_EQ(read(ends[0], text.data(), text.size()), 3);

  EXPECT_TRUE(waits.get());
  for (const int end : ends) close(end);
  EXPECT_TRUE(wait_until_read(ends[1], 30s)) << "no pipe";
}

}  // namespace
}  // namespace trireme
