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

using testing::HasSubstr;

TEST(TokenFile, AStreamOfAppendsEqualsOne) {
  const ScratchFolder scratch;
  const auto ids = counting(5000);
  write_token_file(scratch / "whole", ids, {.targets = std::vector<bool>(5000, true)});
  TokenWriter writer(scratch / "pieces", ExistingFile::replaced, 2, TargetMask::present);
  for (std::size_t begin = 0, n = 1; begin < ids.size(); begin += n, n = n * 2 + 1) {
    n = std::min(n, ids.size() - begin);
    PackedTokens packed;
    packed.append(std::span(ids).subspan(begin, n), 2);
    packed.targets.assign(n, true);
    writer.append(packed);
  }
  writer.finish(256, std::nullopt, 0, {});
  EXPECT_EQ(contents_of(scratch / "pieces"), contents_of(scratch / "whole"));
}

TEST(TokenFile, AMaskBeyondTheBufferIsWhole) {
  const ScratchFolder scratch;
  TokenWriter writer(scratch / "a", ExistingFile::replaced, 2, TargetMask::present);
  const auto is_target = [](std::int64_t i) { return i % 3 == 0 || i % 1001 < 7; };
  std::int64_t count = 0;
  for (const std::int64_t n : {3, 6'000'000, 5, 6'000'000, 8'000'000}) {
    PackedTokens packed;
    packed.append(std::vector<std::int32_t>(static_cast<std::size_t>(n), 1), 2);
    for (std::int64_t i = 0; i < n; ++i) packed.targets.push_back(is_target(count + i));
    writer.append(packed);
    count += n;
  }
  writer.finish(256, std::nullopt, 0, {});
  const TokenFile file(scratch / "a");
  const auto targets = file.targets(0, count);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i)
    wrong += targets[static_cast<std::size_t>(i)] != is_target(i);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(file.verify(), Verified::hash_and_ids);
}

TEST(TokenFile, AnUnfinishedWriterLeavesTheOldFile) {
  const ScratchFolder scratch;
  write_token_file(scratch / "a", {1, 2, 3});
  std::string part;
  {
    TokenWriter writer(scratch / "a", ExistingFile::replaced, 2, TargetMask::present);
    PackedTokens packed;
    packed.append(counting(1000), 2);
    packed.targets.assign(1000, true);
    writer.append(packed);
    for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
      const auto name = entry.path().filename().string();
      if (name.starts_with(".a.partial.")) part = contents_of(entry.path());
    }
  }
  EXPECT_EQ(all_ids(scratch / "a"), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
  // What a killed writer leaves does not open.
  ASSERT_FALSE(part.empty());
  EXPECT_THAT(message_of<Error>([&] { TokenFile(scratch.write("killed", part)); }),
              HasSubstr("never finished"));
}

TEST(TokenFile, RefusesIdsThatDoNotFit) {
  PackedTokens packed;
  EXPECT_THROW(packed.append(std::vector<std::int32_t>{-1}, 4), Error);
  EXPECT_THROW(packed.append(std::vector<std::int32_t>{65536}, 2), Error);
}

TEST(TokenFile, RefusesAPlaceItCannotWrite) {
  const ScratchFolder scratch;
  EXPECT_THAT(message_of<Error>([&] {
                TokenWriter(scratch / "no/such/a", ExistingFile::stays, 2, TargetMask::absent);
              }),
              HasSubstr("no/such/a"));
  EXPECT_THAT(message_of<Error>([&] {
                TokenWriter(scratch.path(), ExistingFile::replaced, 2, TargetMask::absent);
              }),
              HasSubstr("directory"));
}

TEST(TokenFile, OnlyATokenFileIsReplacedAndOnlyWhenAsked) {
  const ScratchFolder scratch;
  const auto write = [&](
                         const char* name, ExistingFile existing,
                         const std::function<void()>& meanwhile = [] {}) {
    return message_of<Error>([&] {
      TokenWriter writer(scratch / name, existing, 2, TargetMask::present);
      PackedTokens packed;
      packed.append(counting(5), 2);
      packed.targets.assign(5, true);
      writer.append(packed);
      meanwhile();
      writer.finish(256, std::nullopt, 0, {});
    });
  };
  write_token_file(scratch / "tokens", {1, 2, 3});
  const auto old = contents_of(scratch / "tokens");
  EXPECT_THAT(write("tokens", ExistingFile::stays), HasSubstr("--overwrite"));
  EXPECT_EQ(contents_of(scratch / "tokens"), old);
  EXPECT_EQ(write("tokens", ExistingFile::replaced), "");
  EXPECT_EQ(all_ids(scratch / "tokens").size(), 5U);

  for (const auto* other : {"a text", "", "TRITOKE"}) {
    scratch.write("other", other);
    for (const auto existing : {ExistingFile::stays, ExistingFile::replaced})
      EXPECT_THAT(write("other", existing), HasSubstr("not a token file"));
    EXPECT_EQ(contents_of(scratch / "other"), other);
  }
  std::filesystem::create_symlink(scratch / "tokens", scratch / "link");
  EXPECT_THAT(write("link", ExistingFile::replaced), HasSubstr("not a regular file"));
  // What comes into being while the tokens are written stays, too.
  EXPECT_THAT(write("late", ExistingFile::stays,
                    [&] {
                      write_token_file(scratch / "early", {1, 2, 3});
                      std::filesystem::rename(scratch / "early", scratch / "late");
                    }),
              HasSubstr("--overwrite"));
  EXPECT_EQ(contents_of(scratch / "late"), old);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 4);
}

}  // namespace
}  // namespace trireme
