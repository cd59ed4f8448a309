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

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& path) {
  return message_of<Error>([&] { TokenFile file(path); });
}

template <class T>
void put(std::string& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Without its hash, a header's fields are judged by themselves.
void forget_header_hash(std::string& bytes) {
  put(bytes, 240, std::uint64_t{0});
  put(bytes, 248, std::uint64_t{0});
}

TEST(TokenFile, KeepsTokensOfBothWidths) {
  const ScratchFolder scratch;
  for (const std::int64_t vocab : {256, 65536, 65537, 200000}) {
    const std::vector<std::int32_t> ids = {0, 7, static_cast<std::int32_t>(vocab - 1), 3};
    const TokenFile file(write_token_file(scratch / "a", ids, {.vocab = vocab, .separator = 3}));
    EXPECT_EQ(all_ids(scratch / "a"), ids);
    EXPECT_EQ(file.header().token_bytes, vocab > 65536 ? 4 : 2);
    EXPECT_EQ(file.header().vocab, vocab);
    EXPECT_EQ(file.header().largest, vocab - 1);
    EXPECT_EQ(file.header().separator, 3);
    EXPECT_FALSE(file.header().has_mask);
    EXPECT_TRUE(is_target(file, 1));
    EXPECT_EQ(file.verify(), Verified::hash_and_ids);
  }
}

TEST(TokenFile, KeepsTheMaskAndTheTokenizer) {
  const ScratchFolder scratch;
  const TokenizerSpec model{TokenizerKind::sentencepiece, std::string("not\0a model", 11)};
  for (const std::size_t n : {1, 7, 8, 9, 1000}) {
    std::vector<bool> targets;
    for (std::size_t i = 0; i < n; ++i) targets.push_back(i % 3 == 0 || i % 7 == 2);
    write_token_file(scratch / "a", counting(static_cast<std::int64_t>(n)),
                     {.targets = targets, .tokenizer = model});
    const TokenFile file(scratch / "a");
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(is_target(file, static_cast<std::int64_t>(i)), targets[i]);
    }
    EXPECT_EQ(file.tokenizer(), model);
    EXPECT_EQ(file.verify(), Verified::hash_and_ids);
  }
}

// Older programs read a file without one, and name the version of one that has it.
TEST(TokenFile, KeepsTheChatTemplate) {
  const ScratchFolder scratch;
  for (const auto kind : {TokenizerKind::bytes, TokenizerKind::sentencepiece}) {
    const TokenizerSpec with{kind, kind == TokenizerKind::bytes ? "" : "a model", "begin = \"\"\n"};
    write_token_file(scratch / "a", counting(100),
                     {.targets = std::vector<bool>(100, true), .tokenizer = with});
    const TokenFile file(scratch / "a");
    EXPECT_EQ(file.tokenizer(), with);
    EXPECT_EQ(file.verify(), Verified::hash_and_ids);
    EXPECT_EQ(contents_of(scratch / "a")[8], 2);
    EXPECT_EQ(contents_of(write_token_file(scratch / "b", counting(100)))[8], 1);
  }
}

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
  EXPECT_THAT(refusal(scratch.write("killed", part)), HasSubstr("never finished"));
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

TEST(TokenFile, NamesWhatIsWrongWithAFile) {
  const ScratchFolder scratch;
  const std::string good = contents_of(write_token_file(scratch / "a", counting(100)));
  const auto refused = [&](const std::string& bytes) { return refusal(scratch.write("b", bytes)); };

  EXPECT_THAT(refusal(scratch / "absent"), AllOf(HasSubstr("absent"), HasSubstr("cannot read")));
  EXPECT_THAT(refusal(scratch.path()), HasSubstr("not a regular file"));
  EXPECT_THAT(refused(""), HasSubstr("empty"));
  EXPECT_THAT(refused(good.substr(0, 100)), HasSubstr("truncated"));
  EXPECT_THAT(refused(good.substr(0, good.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(refused(good + "x"), HasSubstr("1 bytes more"));
  EXPECT_THAT(refused("Hello, I am a text."), HasSubstr("not a Trireme token file"));
  std::string llmc(2000, '\0');
  put(llmc, 0, std::int32_t{20240520});
  EXPECT_THAT(refused(llmc), HasSubstr("--from llmc"));
  std::string later = good;
  put(later, 8, std::uint32_t{5});
  EXPECT_THAT(refused(later), AllOf(HasSubstr("version 5"), HasSubstr("versions 1 to 4")));
}

TEST(TokenFile, FindsEveryDamagedByteOfTheHeader) {
  const ScratchFolder scratch;
  const std::string good = contents_of(write_token_file(scratch / "a", counting(100)));
  for (std::size_t i = 0; i < TokenFileHeader::bytes; ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_THAT(refusal(scratch.write("b", bad)), HasSubstr(scratch / "b")) << "byte " << i;
  }
}

TEST(TokenFile, JudgesEachFieldOfAnUnhashedHeader) {
  const ScratchFolder scratch;
  std::string good = contents_of(write_token_file(scratch / "a", counting(100)));
  forget_header_hash(good);
  EXPECT_EQ(refusal(scratch.write("b", good)), "");
  const auto with = [&](std::size_t offset, auto value) {
    std::string bad = good;
    put(bad, offset, value);
    return refusal(scratch.write("b", bad));
  };
  EXPECT_THAT(with(12, std::uint32_t{3}), HasSubstr("2 nor 4 bytes"));
  EXPECT_THAT(with(12, std::uint32_t{4}), HasSubstr("truncated"));
  EXPECT_THAT(with(16, std::int64_t{-1}), HasSubstr("negative"));
  EXPECT_THAT(with(16, std::int64_t{101}), HasSubstr("truncated"));
  EXPECT_THAT(with(16, std::int64_t{1} << 62), HasSubstr("truncated"));
  EXPECT_THAT(with(24, std::int64_t{0}), HasSubstr("vocabulary"));
  EXPECT_THAT(with(24, std::int64_t{99}), HasSubstr("largest id"));
  EXPECT_THAT(with(40, std::int64_t{256}), HasSubstr("separator"));
  EXPECT_THAT(with(56, std::uint32_t{2}), HasSubstr("mask"));
  EXPECT_THAT(with(56, std::uint32_t{1}), HasSubstr("truncated"));
  EXPECT_THAT(with(60, std::uint32_t{9}), HasSubstr("tokenizer"));
  EXPECT_THAT(with(64, std::int64_t{1} << 62), HasSubstr("tokenizer"));
  EXPECT_THAT(with(100, std::uint8_t{1}), HasSubstr("reserved"));
  EXPECT_THAT(with(8, std::uint32_t{2}), HasSubstr("chat template disagree"));
  EXPECT_THAT(with(88, std::int64_t{1}), HasSubstr("chat template disagree"));
  EXPECT_THAT(with(96, std::uint32_t{2}), HasSubstr("kind of its documents disagree"));
  EXPECT_THAT(with(96, std::uint32_t{3}), HasSubstr("the kind of its documents is unknown"));
  EXPECT_THAT(with(8, std::uint32_t{4}), HasSubstr("kind of its documents disagree"));
  auto labeled = good;
  put(labeled, 8, std::uint32_t{4});
  put(labeled, 96, std::uint32_t{2});
  put(labeled, 40, std::int64_t{0});
  put(labeled, 56, std::uint32_t{1});
  labeled += std::string(13, '\0');  // the mask
  EXPECT_THAT(refusal(scratch.write("b", labeled)), HasSubstr("does not state their number"));
  put(labeled, 48, std::int64_t{2});
  labeled += '\0';
  EXPECT_EQ(refusal(scratch.write("b", labeled)), "");
  put(good, 8, std::uint32_t{2});
  EXPECT_THAT(with(88, std::int64_t{1}), HasSubstr("truncated"));
  EXPECT_THAT(with(88, std::int64_t{1} << 62), HasSubstr("truncated"));
  EXPECT_THAT(with(88, std::int64_t{-1}), HasSubstr("negative"));
}

// Files lie where others write, too.
TEST(TokenFile, OneThatIsCutOffWhileOpenIsAnErrorThatNamesIt) {
  ScratchFolder scratch;
  const TokenFile file(write_token_file(scratch / "a", counting(100'000)));
  std::filesystem::resize_file(scratch / "a", 5000);
  std::vector<std::int32_t> ids(100);
  file.read(0, ids);
  EXPECT_EQ(ids, counting(100));
  for (const auto& message : {message_of<Error>([&] { file.read(50'000, ids); }),
                              message_of<Error>([&] { file.verify(); })})
    EXPECT_NE(message.find(scratch / "a ends before byte "), std::string::npos) << message;
}

// A pipe would be waited for.
TEST(TokenFile, OnlyARegularFileIsOne) {
  ScratchFolder scratch;
  ASSERT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  for (const auto& path : {scratch / "pipe", scratch.path().string()})
    EXPECT_NE(message_of<Error>([&] { TokenFile file(path); }).find("not a regular file"),
              std::string::npos);
}

TEST(TokenFile, VerifyFindsDamageThatOpeningDoesNot) {
  const ScratchFolder scratch;
  const std::string good = contents_of(
      write_token_file(scratch / "a", counting(100), {.targets = std::vector<bool>(100, true)}));
  for (const std::size_t at : {std::size_t{256}, std::size_t{300}, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    const TokenFile file(scratch.write("b", bad));
    EXPECT_THAT(message_of<Error>([&] { file.verify(); }),
                AllOf(HasSubstr(scratch / "b"), HasSubstr("damaged")));
  }
}

TEST(TokenFile, AFileWithoutHashesIsCheckedByItsIds) {
  const ScratchFolder scratch;
  std::string bytes = contents_of(write_token_file(scratch / "a", counting(100)));
  forget_header_hash(bytes);
  put(bytes, 72, std::uint64_t{0});
  put(bytes, 80, std::uint64_t{0});
  EXPECT_EQ(TokenFile(scratch.write("b", bytes)).verify(), Verified::ids_only);

  put(bytes, 256 + 2 * 42, std::uint16_t{200});
  EXPECT_THAT(message_of<Error>([&] { TokenFile(scratch.write("b", bytes)).verify(); }),
              AllOf(HasSubstr("token 42 has id 200"), HasSubstr("the largest id is 99")));
  put(bytes, 256 + 2 * 42, std::uint16_t{300});
  EXPECT_THAT(message_of<Error>([&] { TokenFile(scratch.write("b", bytes)).verify(); }),
              AllOf(HasSubstr(scratch / "b"), HasSubstr("token 42"), HasSubstr("300")));
}

// The python block of docs/token_file.md is run as it stands.
TEST(TokenFile, ReadsWhatTheDocumentedNumpyWrites) {
  const std::string page = contents_of("docs/token_file.md");
  const std::size_t begin = page.find("```python\n");
  ASSERT_NE(begin, std::string::npos) << "run from the root of the project";
  const std::size_t code = begin + 10, end = page.find("```", code);
  std::string python;
  for (const char* candidate : {"python3", "/usr/bin/python3"}) {
    const std::string probe = std::string(candidate) + " -c 'import numpy' 2>/dev/null";
    if (std::system(probe.c_str()) == 0) python = candidate;
  }
  if (python.empty()) GTEST_SKIP() << "no python3 with numpy";
  const ScratchFolder scratch;
  scratch.write("write.py", page.substr(code, end - code));
  ASSERT_EQ(std::system(("cd " + scratch.path().string() + " && " + python + " write.py").c_str()),
            0);
  const TokenFile file(scratch / "numpy.tokens");
  EXPECT_EQ(all_ids(scratch / "numpy.tokens"), (std::vector<std::int32_t>{5, 17, 42, 0, 99, 3, 0}));
  EXPECT_EQ(file.header().vocab, 50257);
  EXPECT_EQ(file.header().separator, 0);
  EXPECT_EQ(file.verify(), Verified::ids_only);
}

}  // namespace
}  // namespace trireme
