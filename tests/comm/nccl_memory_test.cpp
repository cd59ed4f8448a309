#include "lib/comm/nccl_memory.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::size_t memory(const Grid& grid, int shard, int rank) {
  return nccl_memory(pretend_axes(grid, shard, rank), grid.pipe - 1);
}
constexpr std::size_t peer = 32 * 12 << 20;

TEST(NcclMemory, IsThatOfTheConnectionsThatARankHas) {
  EXPECT_EQ(memory({}, 1, 0), 0U);
  // Gathers and scatters of two ranks; of eight; replicas of two as well.
  EXPECT_EQ(memory({.pipe = 1, .data = 2, .seq = 1}, 2, 1), 2 * 544'000'000U);
  EXPECT_EQ(memory({.pipe = 1, .data = 8, .seq = 1}, 8, 3), 2 * 688'000'000U);
  EXPECT_EQ(memory({.pipe = 1, .data = 8, .seq = 1}, 4, 3), 2 * 688'000'000U + 544'000'000U);
  // Three others of seq.
  EXPECT_EQ(memory({.pipe = 1, .data = 1, .seq = 4}, 1, 0), 688'000'000U + 3 * peer);
  // One stage before and one behind, each for activations and gradients; at the ends one of them,
  // and the other end for a tied table.
  EXPECT_EQ(memory({.pipe = 4, .data = 1, .seq = 1}, 1, 1), 4 * peer);
  EXPECT_EQ(memory({.pipe = 4, .data = 1, .seq = 1}, 1, 3), 3 * peer);
  // Where one stage has both ends.
  EXPECT_EQ(nccl_memory(pretend_axes({.pipe = 4, .data = 1, .seq = 1}, 1, 0), 0), 2 * peer);
}

}  // namespace
}  // namespace trireme
