#include "lib/io/rescue_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

const Hash128 one = hash128("one"), other = hash128("other");
using Claims = std::vector<std::vector<CopyClaim>>;

TEST(RescueChoice, ClaimsTravelAsText) {
  const std::vector<CopyClaim> claims{{420, one}, {7, other}};
  EXPECT_EQ(parse_claims(claims_text(claims)), claims);
  EXPECT_EQ(parse_claims(""), std::vector<CopyClaim>{});
  EXPECT_NE(message_of([] { parse_claims("7 no hash"); }), "");
}

TEST(RescueChoice, TheNewestCopyComesFirstWithItsFirstHolder) {
  const Claims claims{{}, {{4, one}}, {{6, other}, {4, one}}};
  EXPECT_EQ(candidates_of(claims), (std::vector<CopyCandidate>{{{6, other}, 2}, {{4, one}, 1}}));
  EXPECT_TRUE(candidates_of(Claims{{}, {}}).empty());
}

// The same step was reached twice, and its shards must not be mixed.
TEST(RescueChoice, CopiesOfOneStepWithOtherContentsAreDifferentCopies) {
  const Claims claims{{{6, one}}, {{6, other}}};
  EXPECT_EQ(candidates_of(claims), (std::vector<CopyCandidate>{{{6, one}, 0}, {{6, other}, 1}}));
}

TEST(RescueChoice, EachFileIsWrittenByAProcessThatHasIt) {
  const std::vector<std::int64_t> bytes{5, 5, 5, 5};
  const std::vector<std::string> intact{"1100", "0110", "0011"};
  const auto writers = writers_of(intact, bytes);
  ASSERT_EQ(writers.size(), bytes.size());
  for (std::size_t file = 0; file < writers.size(); ++file) {
    ASSERT_GE(writers[file], 0);
    EXPECT_EQ(intact[static_cast<std::size_t>(writers[file])][file], '1');
  }
}

TEST(RescueChoice, AFileThatNobodyHasHasNoWriter) {
  const std::vector<std::int64_t> bytes{5, 5, 5};
  EXPECT_EQ(writers_of(std::vector<std::string>{"100", "001"}, bytes),
            (std::vector<int>{0, -1, 1}));
  EXPECT_EQ(writers_of(std::vector<std::string>{"", ""}, bytes), (std::vector<int>{-1, -1, -1}));
}

TEST(RescueChoice, TheWorkIsDividedByBytes) {
  const std::vector<std::int64_t> bytes{8, 4, 4, 1};
  const auto writers = writers_of(std::vector<std::string>{"1111", "1111"}, bytes);
  std::int64_t work[2] = {0, 0};
  for (std::size_t file = 0; file < bytes.size(); ++file) work[writers[file]] += bytes[file];
  EXPECT_LE(std::max(work[0], work[1]), 9);
}

}  // namespace
}  // namespace trireme
