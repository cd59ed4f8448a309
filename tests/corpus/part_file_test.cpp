#include "lib/corpus/part_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;

class PartFiles : public testing::Test {
 protected:
  PackedTokens packed(std::vector<std::int32_t> ids, std::vector<std::uint8_t> targets = {}) const {
    PackedTokens p;
    p.append(ids, 2);
    p.targets = std::move(targets);
    return p;
  }
  const ScratchFolder scratch_;
  const std::string path_ = scratch_ / "a.part";
};

TEST_F(PartFiles, HoldWhatWasWritten) {
  TextTotals totals;
  totals.sum.tokens = 12;
  totals.sum.learnt = 3;
  totals.sum.alike = {2, "\xff:3"};
  totals.sum.unread["key"] = {1, "b:2"};
  totals.roles = {"user"};
  {
    PartWriter writer(path_);
    writer.append(packed({1, 2, 3}, {1, 0, 1}));
    writer.append({});
    auto p = packed({4, 5, 6, 7, 8, 9, 10, 11, 12}, {0, 0, 0, 0, 0, 0, 0, 0, 1});
    p.labels = {1, 0};
    p.weights = {{4, 0.5F}, {9, 2}};
    writer.append(p);
    writer.finish(totals);
  }
  const auto read = part_totals(path_);
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json(*read), to_json(totals));
  std::vector<int> ids, targets, labels;
  std::vector<std::pair<std::int64_t, float>> weights;
  read_part(path_, 2, [&](const PackedTokens& p) {
    for (std::size_t i = 0; i < p.tokens.size(); i += 2)
      ids.push_back(std::to_integer<int>(p.tokens[i]));
    targets.insert(targets.end(), p.targets.begin(), p.targets.end());
    labels.insert(labels.end(), p.labels.begin(), p.labels.end());
    EXPECT_EQ(p.largest, 12);
    for (const auto& [end, weight] : p.weights) weights.emplace_back(end, weight);
  });
  EXPECT_THAT(ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(targets, ElementsAre(1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(labels, ElementsAre(1, 0));
  EXPECT_THAT(weights, ElementsAre(std::pair(7, 0.5F), std::pair(12, 2.0F)));
}

// Whatever is cut off or changed, the file is not taken for a whole one.
TEST_F(PartFiles, AreWholeOrRefused) {
  {
    PartWriter writer(path_);
    writer.append(packed({1, 2, 3}, {1, 0, 1}));
    writer.finish({});
  }
  const auto whole = contents_of(path_);
  const auto refused = [&](const std::string& name) {
    const auto path = scratch_.write("b.part", name);
    if (!part_totals(path)) return true;
    return !message_of<Error>([&] { read_part(path, 2, [](const auto&) {}); }).empty();
  };
  EXPECT_FALSE(refused(whole));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_TRUE(refused(whole.substr(0, n))) << n;
    auto other = whole;
    other[n] = static_cast<char>(other[n] ^ 16);
    EXPECT_TRUE(refused(other)) << n;
  }
  EXPECT_TRUE(refused(whole + "x"));
  EXPECT_FALSE(part_totals(scratch_ / "none"));
}

TEST_F(PartFiles, LeaveNothingIfTheyAreNotFinished) {
  {
    PartWriter writer(path_);
    writer.append(packed({1}));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}), 1);
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

}  // namespace
}  // namespace trireme
