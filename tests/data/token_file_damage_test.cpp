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
  put(later, 8, std::uint32_t{6});
  EXPECT_THAT(refused(later), AllOf(HasSubstr("version 6"), HasSubstr("versions 1 to 5")));
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
  EXPECT_THAT(with(100, 1.0F), HasSubstr("largest weight is not possible"));
  EXPECT_THAT(with(112, 1.0F), HasSubstr("largest weight is not possible"));
  EXPECT_THAT(with(116, std::uint8_t{1}), HasSubstr("reserved"));
  EXPECT_THAT(with(8, std::uint32_t{5}), HasSubstr("the number of weights disagree"));
  EXPECT_THAT(with(104, std::int64_t{1}), HasSubstr("the number of weights disagree"));
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
  auto weighted = good;
  put(weighted, 8, std::uint32_t{5});
  put(weighted, 104, std::int64_t{1});
  put(weighted, 100, 0.5F);
  put(weighted, 112, 0.25F);
  EXPECT_THAT(refusal(scratch.write("b", weighted)), HasSubstr("weight is not possible"));
  put(weighted, 112, 2e5F);
  EXPECT_THAT(refusal(scratch.write("b", weighted)), HasSubstr("weight is not possible"));
  put(weighted, 112, std::nanf(""));
  EXPECT_THAT(refusal(scratch.write("b", weighted)), HasSubstr("weight is not possible"));
  put(weighted, 112, 2.0F);
  EXPECT_THAT(refusal(scratch.write("b", weighted)), HasSubstr("truncated"));
  EXPECT_EQ(refusal(scratch.write("b", weighted + std::string(12, '\0'))), "");
  put(weighted, 104, std::int64_t{1} << 62);
  EXPECT_THAT(refusal(scratch.write("b", weighted)), HasSubstr("number of weights disagree"));
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

// A file without hashes is judged by what it says.
TEST(TokenFile, NamesDamagedWeights) {
  const ScratchFolder scratch;
  auto good = contents_of(write_token_file(
      scratch / "a", counting(100), {.weights = {{10, 0.5F}, {20, 2}, {30, 1}, {100, 0.5F}}}));
  forget_header_hash(good);
  put(good, 72, std::uint64_t{0});
  put(good, 80, std::uint64_t{0});
  const auto at = good.size() - std::size_t{4} * 12;
  const auto said = [&](std::size_t offset, auto value) {
    auto bad = good;
    put(bad, at + offset, value);
    const TokenFile file(scratch.write("b", bad));
    return message_of<Error>([&] { file.verify(); });
  };
  EXPECT_EQ(said(0, std::int64_t{11}), "");
  EXPECT_THAT(said(12, std::int64_t{10}), AllOf(HasSubstr(scratch / "b"), HasSubstr("weight 1")));
  EXPECT_THAT(said(12, std::int64_t{-1}), HasSubstr("damaged"));
  EXPECT_THAT(said(12, std::int64_t{100}), HasSubstr("damaged"));
  EXPECT_THAT(said(36, std::int64_t{99}), HasSubstr("damaged"));
  EXPECT_THAT(said(36, std::int64_t{101}), HasSubstr("damaged"));
  EXPECT_THAT(said(8, 0.25F), HasSubstr("damaged"));
  EXPECT_THAT(said(8, std::nanf("")), HasSubstr("damaged"));
  EXPECT_THAT(said(20, 1.0F), HasSubstr("its weights are 0.5 to 1"));
}

}  // namespace
}  // namespace trireme
