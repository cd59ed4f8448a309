#include "lib/data/token_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <filesystem>
#include <functional>

#include <cstdlib>
#include <cstring>

#include "lib/base/error.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

// Older programs read files without labels, and refuse the version of one that has them.
TEST(TokenFile, KeepsLabels) {
  const ScratchFolder scratch;
  for (const std::size_t n : {2, 8, 9, 29}) {
    std::vector<bool> labels;
    for (std::size_t i = 0; i < n; ++i) labels.push_back(i % 3 == 0 || i == 8);
    const TokenizerSpec with{TokenizerKind::bytes, "", "begin = \"\"\n"};
    write_token_file(scratch / "a", counting(100),
                     {.separator = 0,
                      .targets = std::vector<bool>(100, true),
                      .tokenizer = with,
                      .labels = labels});
    const TokenFile file(scratch / "a");
    EXPECT_EQ(file.labels(), labels);
    EXPECT_EQ(file.tokenizer(), with);
    EXPECT_EQ(file.header().kind, Documents::labeled);
    EXPECT_EQ(file.verify(), Verified::hash_and_ids);
    auto bytes = contents_of(scratch / "a");
    EXPECT_EQ(bytes[8], 4);
    EXPECT_EQ(bytes[96], 2);
    EXPECT_EQ(bytes[bytes.size() - (n + 7) / 8] & 1, 1);  // at the end of the file
    bytes.back() ^= 1;
    EXPECT_THROW(TokenFile(scratch.write("b", bytes)).verify(), Error);
    EXPECT_THROW(TokenFile(scratch.write("b", bytes.substr(0, bytes.size() - 1))), Error);
  }
  EXPECT_TRUE(TokenFile(write_token_file(scratch / "c", counting(9))).labels().empty());
}

// The weight of token i, by ranges of 1, 2, 3, ... tokens.
float some_weight(std::int64_t i) {
  std::int64_t range = 0;
  while ((range + 1) * (range + 2) / 2 <= i) ++range;
  return std::ldexp(1 + static_cast<float>(range % 5), static_cast<int>(range % 3) - 1);
}

// Older programs refuse the version of a file with weights.
TEST(TokenFile, KeepsWeights) {
  const ScratchFolder scratch;
  for (const std::int64_t n : {1, 2, 100, 5000}) {
    std::vector<WeightRange> ranges;
    for (std::int64_t i = 0; i < n; ++i) {
      if (ranges.empty() || ranges.back().weight != some_weight(i))
        ranges.push_back({0, some_weight(i)});
      ranges.back().end = i + 1;
    }
    for (const char* const chat : {"", "begin = \"\"\n"}) {
      const TokenizerSpec with{TokenizerKind::bytes, "", chat};
      write_token_file(scratch / "a", counting(n),
                       {.targets = std::vector<bool>(static_cast<std::size_t>(n), true),
                        .tokenizer = with,
                        .weights = ranges});
      const TokenFile file(scratch / "a");
      EXPECT_EQ(contents_of(scratch / "a")[8], 5);
      EXPECT_EQ(file.tokenizer(), with);
      EXPECT_EQ(file.header().weight_ranges, std::ssize(ranges));
      EXPECT_EQ(file.header().smallest_weight, 0.5F);
      EXPECT_EQ(file.verify(), Verified::hash_and_ids);
      for (const std::int64_t begin : {std::int64_t{0}, n / 3, n - 1})
        for (const std::int64_t count :
             {std::int64_t{0}, std::int64_t{1}, (n - begin) / 2, n - begin}) {
          const auto got = file.weights(begin, count);
          ASSERT_EQ(std::ssize(got), count);
          for (std::int64_t i = 0; i < count; ++i)
            ASSERT_EQ(got[static_cast<std::size_t>(i)], some_weight(begin + i)) << begin + i;
        }
    }
  }
  const TokenFile without(write_token_file(scratch / "b", counting(9)));
  EXPECT_EQ(without.weights(2, 3), (std::vector{1.0F, 1.0F, 1.0F}));
}

// Ranges of documents that follow each other with the same weight are one, across appends.
TEST(TokenFile, WeightsBeyondTheBufferAreWhole) {
  const ScratchFolder scratch;
  TokenWriter writer(scratch / "a", ExistingFile::replaced, 2, TargetMask::absent);
  constexpr std::int64_t documents = 300'000;  // of 3 tokens, and a range has 12 bytes
  const auto weight = [](std::int64_t d) { return d % 4 == 3 ? 8.0F : d % 2 == 0 ? 0.25F : 3.0F; };
  for (std::int64_t d = 0; d < documents;) {
    PackedTokens packed;
    for (std::int64_t i = 0; i < 1001 && d < documents; ++i, ++d) {
      packed.append(std::vector<std::int32_t>{1, 2, 3}, 2);
      packed.set_weight(weight(d / 2));
    }
    writer.append(packed);
  }
  writer.finish(256, std::nullopt, 0, {});
  const TokenFile file(scratch / "a");
  EXPECT_EQ(file.header().weight_ranges, documents / 2);
  EXPECT_EQ(file.header().smallest_weight, 0.25F);
  EXPECT_EQ(file.header().largest_weight, 8);
  EXPECT_EQ(file.verify(), Verified::hash_and_ids);
  const auto all = file.weights(0, 3 * documents);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < 3 * documents; ++i)
    wrong += all[static_cast<std::size_t>(i)] != weight(i / 6);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace trireme
