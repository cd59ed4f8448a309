#include "lib/data/subset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> windows_of(const Subset& subset) {
  std::vector<std::int64_t> all;
  for (std::int64_t k = 0; k < subset.samples(); ++k) all.push_back(subset(k));
  return all;
}

std::vector<std::int64_t> counts(const std::vector<std::int64_t>& windows,
                                 const std::vector<double>& shares, std::int64_t samples) {
  std::vector<std::int64_t> counts(windows.size());
  for (const auto w : windows_of({windows, shares, samples})) {
    std::size_t source = 0;
    for (auto at = w; at >= windows[source]; ++source) at -= windows[source];
    ++counts[source];
  }
  return counts;
}

TEST(Subset, IsEvenOverEachSource) {
  EXPECT_THAT(windows_of({{6, 4}, {}, 5}), ElementsAre(1, 3, 5, 7, 9));
  EXPECT_THAT(windows_of({{10}, {}, 3}), ElementsAre(1, 5, 8));
  EXPECT_THAT(windows_of({{3, 2}, {}, 5}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(windows_of({{3, 2}, {7, 1}, 9}), ElementsAre(0, 1, 2, 3, 4));
  // Of far more windows than samples, gaps differ by one at most, and so do both ends' halves.
  constexpr std::int64_t n = (std::int64_t{1} << 61) + 7;
  const auto far = windows_of({{n}, {}, 1000});
  for (std::size_t i = 1; i < far.size(); ++i)
    ASSERT_LE(std::abs(far[i] - far[i - 1] - n / 1000), 1) << i;
  EXPECT_NEAR(static_cast<double>(far[0]), n / 2000.0, 1);
}

TEST(Subset, GivesEachSourceItsShare) {
  EXPECT_THAT(counts({151, 9}, {}, 80), ElementsAre(76, 4));  // of 75.5 and 4.5
  EXPECT_THAT(counts({1510, 90}, {1, 1}, 160), ElementsAre(80, 80));
  EXPECT_THAT(counts({1510, 90}, {0.3, 0.1}, 160), ElementsAre(120, 40));
  EXPECT_THAT(counts({5, 5, 5}, {1, 1, 1}, 8), ElementsAre(3, 3, 2));
  EXPECT_THAT(counts({1000, 1}, {}, 3), ElementsAre(3, 0));
}

TEST(Subset, TakesFromOthersWhatASourceLacks) {
  EXPECT_THAT(counts({151, 9}, {1, 1}, 100), ElementsAre(91, 9));
  EXPECT_THAT(counts({4, 100, 100}, {2, 1, 1}, 100), ElementsAre(4, 48, 48));
  EXPECT_THAT(counts({4, 100, 100}, {1e9, 1e-9, 1e-9}, 100), ElementsAre(4, 48, 48));
}

}  // namespace
}  // namespace trireme
