#include "lib/ops/sequence_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace trireme::ops {
namespace {

struct Case {
  std::int64_t tokens;
  int ranks;
  std::int64_t heads, leaf, key_tile;
};
// Odd shares, more groups than tiles, a rest behind the last whole step.
const std::vector<Case> cases{{64, 1, 1, 1, 1},      {16, 4, 1, 1, 1},     {16, 8, 2, 1, 1},
                              {15, 5, 1, 1, 1},      {12, 4, 3, 1, 1},     {4096, 8, 3, 1, 64},
                              {4096, 8, 1, 256, 64}, {4096, 8, 12, 1, 64}, {1344, 6, 2, 7, 64},
                              {200, 4, 1, 2, 64},    {4160, 4, 1, 1, 64},  {8192, 16, 4, 32, 64}};

std::vector<SequenceLayout> layouts() {
  std::vector<SequenceLayout> all;
  for (const auto& c : cases) all.emplace_back(c.tokens, c.ranks, c.heads, c.leaf, c.key_tile);
  return all;
}

TEST(SequenceLayout, AsManyRanksShareHeadsAsHaveOneAndDivideTheRanks) {
  EXPECT_EQ(ranks_with_heads(8, 12), 8);
  EXPECT_EQ(ranks_with_heads(8, 3), 2);
  EXPECT_EQ(ranks_with_heads(12, 8), 6);
  EXPECT_EQ(ranks_with_heads(7, 5), 1);
  EXPECT_EQ(ranks_with_heads(5, 1), 1);
}

TEST(SequenceLayout, EachPositionIsOnOneRank) {
  for (const auto& l : layouts()) {
    std::vector<std::int32_t> all;
    for (int r = 0; r < l.ranks(); ++r) {
      const auto own = l.every_position(r);
      EXPECT_EQ(std::ssize(own), l.tokens() / l.ranks());
      EXPECT_TRUE(std::ranges::is_sorted(own));
      all.insert(all.end(), own.begin(), own.end());
    }
    std::ranges::sort(all);
    for (std::size_t p = 0; p < all.size(); ++p) ASSERT_EQ(all[p], static_cast<std::int32_t>(p));
  }
}

// What ranks that share out heads have together is their group's blocks in order.
TEST(SequenceLayout, AGroupHasABlockOfEachChunk) {
  for (const auto& l : layouts())
    for (int g = 0; g < l.groups(); ++g) {
      std::vector<std::int32_t> blocks, ranks;
      for (int c = 0; c < l.chunks(); ++c) {
        EXPECT_EQ(l.block(g, c).count(), l.chunk(c).count() / l.groups());
        for (auto p = l.block(g, c).begin; p < l.block(g, c).end; ++p)
          blocks.push_back(static_cast<std::int32_t>(p));
      }
      for (int r = 0; r < l.head_ranks(); ++r) {
        const auto own = l.every_position(g * l.head_ranks() + r);
        ranks.insert(ranks.end(), own.begin(), own.end());
      }
      EXPECT_EQ(blocks, ranks);
    }
}

TEST(SequenceLayout, ChunksBeginAtKeyTilesAndBlocksAtLeaves) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto l = layouts()[i];
    EXPECT_LE(l.chunks(), std::max(1, 2 * l.groups()));
    for (int c = 0; c < l.chunks(); ++c) {
      EXPECT_EQ(l.chunk(c).begin % (l.groups() > 1 ? cases[i].key_tile : 1), 0);
      for (int g = 0; g < l.groups(); ++g) EXPECT_EQ(l.block(g, c).begin % cases[i].leaf, 0);
    }
  }
  EXPECT_EQ(layouts()[5].chunks(), 8);
  EXPECT_EQ(layouts()[6].chunks(), 2);  // two leaves a rank
}

// Each group computes about as many pairs of a query and a key.
TEST(SequenceLayout, GroupsHaveEqualWork) {
  for (const int ranks : {2, 4, 8}) {
    const SequenceLayout l(8192, ranks, 1, 1, 64);
    std::vector<double> pairs;
    for (int r = 0; r < ranks; ++r) {
      double n = 0;
      for (const auto p : l.every_position(r)) n += p + 1;
      pairs.push_back(n);
    }
    EXPECT_LE(std::ranges::max(pairs), 1.001 * std::ranges::min(pairs));
  }
}

// Whole tiles around what some query sees, and no more.
TEST(SequenceLayout, QueriesSeeWhatCausalityAndWindowsLeave) {
  for (std::size_t i = 0; i < cases.size(); ++i)
    for (const std::int64_t window : {0, 1, 5, 100, 4000}) {
      const auto l = layouts()[i];
      const auto tile = cases[i].key_tile;
      for (int g = 0; g < l.groups(); ++g)
        for (int c = 0; c < l.chunks(); ++c) {
          std::set<std::int64_t> tiles;
          std::int64_t last = -1;
          for (int q = 0; q < l.chunks(); ++q)
            for (auto t = l.block(g, q).begin; t < l.block(g, q).end; ++t) {
              const auto first = window > 0 ? std::max<std::int64_t>(0, t + 1 - window) : 0;
              for (auto k = std::max(first / tile * tile, l.chunk(c).begin);
                   k <= std::min(t, l.chunk(c).end - 1); k += tile) {
                tiles.insert(k / tile);
                last = std::max(last, std::min(t, l.chunk(c).end - 1));
              }
            }
          const auto seen = l.seen(g, c, window);
          if (tiles.empty()) {
            EXPECT_EQ(seen.count(), 0);
            continue;
          }
          EXPECT_EQ(seen.begin, std::max(*tiles.begin() * tile, l.chunk(c).begin));
          EXPECT_EQ(seen.end, last + 1);
        }
    }
}

}  // namespace
}  // namespace trireme::ops
