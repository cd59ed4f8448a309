#include "lib/launch/clocks.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "lib/base/rng.hpp"

namespace trireme::launch {
namespace {

// Barriers of two ranks, the second of whose clocks shows `apart` more: both enter at any time, and
// leave at any time after both have entered.
std::pair<std::vector<BarrierSeen>, std::vector<BarrierSeen>> barriers(std::int64_t apart) {
  std::vector<BarrierSeen> mine, theirs;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto r = philox4x32(3, i, 0);
    const auto start = static_cast<std::int64_t>(i) * 10'000'000;
    const std::int64_t a = start + r[0] % 1'000'000, b = start + r[1] % 1'000'000;
    const auto both = std::max(a, b) + 2000;
    mine.push_back({a, both + r[2] % 50'000});
    theirs.push_back({b + apart, both + r[3] % 50'000 + apart});
  }
  return {mine, theirs};
}

TEST(Clocks, ThoseOfOneMachineAreTheSame) {
  const auto [mine, theirs] = barriers(0);
  EXPECT_EQ(clock_offset(mine, theirs), 0);
}

TEST(Clocks, OthersAreFoundWithinABarrier) {
  for (const std::int64_t apart : {std::int64_t{77'000'000'000}, std::int64_t{-5'000'000}}) {
    const auto [mine, theirs] = barriers(apart);
    // A rank leaves at most 52 us after the last has entered.
    EXPECT_NEAR(static_cast<double>(clock_offset(mine, theirs)), static_cast<double>(apart),
                52'000);
    EXPECT_NEAR(static_cast<double>(clock_offset(theirs, mine)), -static_cast<double>(apart),
                52'000);
  }
}

TEST(Clocks, OneRankIsItsOwnRoot) {
  EXPECT_EQ(offset_to_root({}), 0);
}

}  // namespace
}  // namespace trireme::launch
