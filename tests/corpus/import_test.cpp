#include "lib/corpus/import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "lib/base/error.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <class T, class Values>
std::string as(const Values& values) {
  std::string bytes;
  for (const auto v : values) {
    const auto value = static_cast<T>(v);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

using Numbers = std::vector<std::int64_t>;

std::string llmc(std::int32_t magic, std::int32_t version, std::int64_t count) {
  std::vector<std::int64_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return as<std::int32_t>(header);
}

std::string megatron_index(int type_code, const Numbers& lengths, const Numbers& offsets,
                           const Numbers& borders) {
  return std::string("MMIDIDX\0\0", 9) + as<std::uint64_t>(Numbers{1}) +
         static_cast<char>(type_code) +
         as<std::uint64_t>(Numbers{static_cast<std::int64_t>(lengths.size()),
                                   static_cast<std::int64_t>(borders.size())}) +
         as<std::int32_t>(lengths) + as<std::int64_t>(offsets) + as<std::int64_t>(borders);
}

class Import : public testing::Test {
 protected:
  TokenizeOptions options(InputFormat format, std::vector<std::string> inputs) const {
    TokenizeOptions o;
    o.inputs = std::move(inputs);
    o.output = output_;
    o.format = format;
    o.existing = ExistingFile::replaced;
    return o;
  }
  std::vector<std::int32_t> imported(const TokenizeOptions& o) const {
    tokenize(o);
    return all_ids(output_);
  }
  std::string refusal(const TokenizeOptions& o) const {
    return message_of<Error>([&] { tokenize(o); });
  }

  const ScratchFolder scratch_;
  const std::string output_ = scratch_ / "out.tokens";
};

TEST_F(Import, RawIdsOfBothWidths) {
  const Numbers ids = {5, 0, 50256, 7};
  const std::string u16 = scratch_.write("a.u16", as<std::uint16_t>(ids));
  EXPECT_THAT(imported(options(InputFormat::raw_u16, {u16})), ElementsAre(5, 0, 50256, 7));
  EXPECT_EQ(TokenFile(output_).header().vocab, 50257);
  EXPECT_EQ(TokenFile(output_).header().token_bytes, 2);
  EXPECT_EQ(TokenFile(output_).header().separator, std::nullopt);

  const std::string u32 = scratch_.write("a.u32", as<std::uint32_t>(Numbers{5, 128000}));
  EXPECT_THAT(imported(options(InputFormat::raw_u32, {u32})), ElementsAre(5, 128000));
  EXPECT_EQ(TokenFile(output_).header().token_bytes, 4);

  auto o = options(InputFormat::raw_u32, {scratch_.write("b.u32", as<std::uint32_t>(ids))});
  o.vocab = 50304;
  o.separator = 50256;
  EXPECT_THAT(imported(o), ElementsAre(5, 0, 50256, 7));
  EXPECT_EQ(TokenFile(output_).header().vocab, 50304);
  EXPECT_EQ(TokenFile(output_).header().token_bytes, 2);
  EXPECT_EQ(TokenFile(output_).header().separator, 50256);
  EXPECT_EQ(TokenFile(output_).header().documents, 1);
}

TEST_F(Import, ManyBlocks) {
  std::vector<std::int32_t> ids = counting(1'000'003, 40000);
  const std::string file = scratch_.write("a", as<std::uint16_t>(ids));
  EXPECT_EQ(imported(options(InputFormat::raw_u16, {file})), ids);
}

TEST_F(Import, AnIdBeyondTheVocabularyIsNamedWithItsPlace) {
  auto o = options(InputFormat::raw_u16,
                   {scratch_.write("a", as<std::uint16_t>(Numbers{1, 2, 300, 4}))});
  o.vocab = 256;
  EXPECT_THAT(refusal(o), AllOf(HasSubstr(scratch_ / "a"), HasSubstr("id 2"), HasSubstr("byte 4"),
                                HasSubstr("300"), HasSubstr("256")));
  EXPECT_THAT(refusal(options(InputFormat::raw_u32, {scratch_.write("b", "\1\2\3\xff")})),
              HasSubstr(scratch_ / "b"));
  EXPECT_THAT(refusal(options(InputFormat::raw_u16, {scratch_.write("c", "abc")})),
              HasSubstr("whole number"));
  EXPECT_FALSE(std::filesystem::exists(output_));
}

TEST_F(Import, LlmcFiles) {
  const Numbers ids = {50256, 1, 2, 50256, 3};
  const std::string gpt2 = scratch_.write("a.bin", llmc(20240520, 1, 5) + as<std::uint16_t>(ids));
  auto o = options(InputFormat::llmc, {gpt2});
  o.separator = 50256;
  EXPECT_THAT(imported(o), ElementsAre(50256, 1, 2, 50256, 3));
  EXPECT_EQ(TokenFile(output_).header().documents, 2);
  const std::string llama =
      scratch_.write("b.bin", llmc(20240801, 7, 2) + as<std::uint32_t>(Numbers{128000, 9}));
  EXPECT_THAT(imported(options(InputFormat::llmc, {llama})), ElementsAre(128000, 9));

  const auto refused = [&](const std::string& bytes) {
    return refusal(options(InputFormat::llmc, {scratch_.write("c.bin", bytes)}));
  };
  EXPECT_THAT(refused("short"), HasSubstr("shorter than its header"));
  EXPECT_THAT(refused(llmc(20240522, 1, 0)), HasSubstr("magic 20240522"));
  EXPECT_THAT(refused(llmc(20240520, 2, 0)), HasSubstr("version 2"));
  EXPECT_THAT(refused(llmc(20240520, 1, 3) + as<std::uint16_t>(Numbers{1, 2})),
              HasSubstr("header says 3"));
}

TEST_F(Import, MegatronPairsOfEachType) {
  const Numbers ids = {1, 2, 3, 9, 4, 5, 9}, lengths = {2, 2, 3}, borders = {0, 2, 3};
  const auto write = [&](int code, const std::string& bin, std::int64_t width) {
    scratch_.write("m.bin", bin);
    scratch_.write("m.idx", megatron_index(code, lengths, {0, 2 * width, 4 * width}, borders));
  };
  const auto expect_ids = [&](const std::string& name) {
    EXPECT_THAT(imported(options(InputFormat::megatron, {name})), ElementsAre(1, 2, 3, 9, 4, 5, 9));
    EXPECT_EQ(TokenFile(output_).header().documents, 2);
  };
  write(1, as<std::uint8_t>(ids), 1);
  expect_ids(scratch_ / "m");
  write(2, as<std::int8_t>(ids), 1);
  expect_ids(scratch_ / "m.bin");
  write(3, as<std::int16_t>(ids), 2);
  expect_ids(scratch_ / "m.idx");
  write(4, as<std::int32_t>(ids), 4);
  expect_ids(scratch_ / "m.*");
  write(5, as<std::int64_t>(ids), 8);
  expect_ids(scratch_ / "m");
  write(8, as<std::uint16_t>(ids), 2);
  expect_ids(scratch_ / "m");

  // The separator is added where a document does not end with it.
  auto o = options(InputFormat::megatron, {scratch_ / "m"});
  o.separator = 9;
  EXPECT_THAT(imported(o), ElementsAre(1, 2, 3, 9, 4, 5, 9));
  o.separator = 0;
  EXPECT_THAT(imported(o), ElementsAre(1, 2, 3, 9, 0, 4, 5, 9, 0));
}

TEST_F(Import, NamesWhatIsWrongWithAMegatronPair) {
  scratch_.write("m.bin", as<std::uint16_t>(Numbers{1, 2, 3}));
  const auto refused = [&](const std::string& index) {
    scratch_.write("m.idx", index);
    return refusal(options(InputFormat::megatron, {scratch_ / "m"}));
  };
  const std::string good = megatron_index(8, {3}, {0}, {0, 1});
  EXPECT_EQ(refused(good), "");
  EXPECT_THAT(refused("MMIDIDX"), HasSubstr("shorter than its header"));
  EXPECT_THAT(refused(std::string(40, 'x')), HasSubstr("not a Megatron index"));
  EXPECT_THAT(refused(megatron_index(7, {3}, {0}, {0, 1})), HasSubstr("type code 7"));
  EXPECT_THAT(refused(good.substr(0, good.size() - 1)), HasSubstr("damaged"));
  EXPECT_THAT(refused(megatron_index(8, {4}, {0}, {0, 1})), HasSubstr("sequence 0"));
  EXPECT_THAT(refused(megatron_index(8, {1, 1}, {0, 8}, {0, 2})), HasSubstr("sequence 1"));
  EXPECT_THAT(refused(megatron_index(8, {-1}, {0}, {0, 1})), HasSubstr("sequence 0"));
  std::filesystem::remove(scratch_ / "m.idx");
  EXPECT_THAT(refusal(options(InputFormat::megatron, {scratch_ / "m"})), HasSubstr("m.idx"));
  scratch_.write("m.idx", megatron_index(3, {1}, {0}, {0, 1}));
  scratch_.write("m.bin", as<std::int16_t>(Numbers{-5}));
  EXPECT_THAT(refusal(options(InputFormat::megatron, {scratch_ / "m"})), HasSubstr("-5"));
}

TEST_F(Import, ATokenizerTravelsAlong) {
  const auto bytes = bytes_tokenizer();
  auto o =
      options(InputFormat::raw_u16, {scratch_.write("a", as<std::uint16_t>(Numbers{72, 105}))});
  o.tokenizer = bytes.get();
  EXPECT_THAT(imported(o), ElementsAre(72, 105));
  EXPECT_EQ(TokenFile(output_).tokenizer().kind, TokenizerKind::bytes);
  EXPECT_EQ(TokenFile(output_).header().vocab, 256);
}

}  // namespace
}  // namespace trireme
