#include "lib/train/counted_tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::ElementsAre;

// Two samples of 6 tokens: three documents, of which the last is padding; two documents.
Batch some_share(std::size_t ranks) {
  Batch b;
  b.sample_B = {7, 8};
  b.ids_BT.resize(12 / ranks);
  b.start_BT = {0, 0, 2, 2, 2, 5, 0, 0, 0, 0, 4, 4};
  b.tokens_B = {5, 6};
  return b;
}

TEST(CountedTokens, AreCountedWithTheFirstOfTheirDocumentHere) {
  const ops::SequenceLayout halves(6, 2, 2, 1, 1);
  const auto share = some_share(2);
  EXPECT_THAT(counted_tokens(share, halves, 0), ElementsAre(0, 0, 2, 3, 3, 3, 2, 2, -1, 3, -1, -1));
  EXPECT_THAT(counted_tokens(share, halves, 1), ElementsAre(-1, -1, 0, 3, 3, 3, 0, 0, -1, 3, 4, 4));
  EXPECT_EQ(count_tokens(share, halves, 0), 6);
  EXPECT_EQ(count_tokens(share, halves, 1), 5);
}

// Where positions of a rank do not follow each other, too.
TEST(CountedTokens, OfOneDocumentAreCountedAsOne) {
  const ops::SequenceLayout folded(6, 2, 1, 1, 1);
  ASSERT_EQ(folded.groups(), 2);
  const auto share = some_share(2);
  std::int64_t tokens = 0;
  for (const int rank : {0, 1}) {
    const auto own = folded.every_position(rank);
    const auto counted = counted_tokens(share, folded, rank);
    std::size_t i = 0;
    for (const int r : {0, 1})
      for (std::size_t b = 0; b < 2; ++b)
        for (const auto t : folded.every_position(r)) {
          const auto start = [&](std::int32_t at) {
            return share.start_BT[b * 6 + static_cast<std::size_t>(at)];
          };
          std::int32_t want = -1, row = static_cast<std::int32_t>(b * 3);
          for (const auto at : own) {
            if (want < 0 && t < share.tokens_B[b] && start(at) == start(t)) want = row;
            ++row;
          }
          EXPECT_EQ(counted[i++], want) << "rank " << rank << " sample " << b << " token " << t;
        }
    tokens += count_tokens(share, folded, rank);
  }
  EXPECT_EQ(tokens, 11);
}

// Documents that see each other are one sample, of which the end may be padding.
TEST(CountedTokens, OfWholeSamplesWithPadding) {
  const ops::SequenceLayout alone(6);
  auto share = some_share(1);
  share.start_BT.clear();
  EXPECT_TRUE(has_some_apart(share));
  EXPECT_THAT(counted_tokens(share, alone, 0), ElementsAre(0, 0, 0, 0, 0, -1, 6, 6, 6, 6, 6, 6));
  share.tokens_B.clear();
  EXPECT_FALSE(has_some_apart(share));
  EXPECT_EQ(count_tokens(share, alone, 0), 12);
}

}  // namespace
}  // namespace trireme
