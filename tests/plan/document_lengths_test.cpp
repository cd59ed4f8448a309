// The share of pairs, against counting them one by one.
#include "lib/plan/document_lengths.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

using Lengths = std::vector<std::int64_t>;

double counted_pairs(const Lengths& lengths, std::int64_t window) {
  double pairs = 0;
  for (const auto n : lengths)
    for (std::int64_t query = 0; query < n; ++query)
      for (std::int64_t key = 0; key <= query; ++key)
        if (window == 0 || key > query - window) ++pairs;
  return pairs;
}

TEST(DocumentLengths, ShareOfPairs) {
  for (const auto& lengths : {Lengths{12, 12}, Lengths{5, 7, 1, 1, 1, 9}, Lengths(24, 1)})
    for (const std::int64_t window : {0, 1, 4, 9, 12, 100}) {
      DocumentLengths documents{.context = 12, .lengths = {}};
      for (const auto n : lengths) ++documents.lengths[n];
      EXPECT_DOUBLE_EQ(documents.share_of_pairs(window),
                       counted_pairs(lengths, window) / counted_pairs({12, 12}, window));
    }
  EXPECT_EQ(DocumentLengths{}.share_of_pairs(0), 1);
}

}  // namespace
}  // namespace trireme
