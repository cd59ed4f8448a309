#include "lib/tokenizer/tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BytesTokenizer, IdsAreBytes) {
  const auto tokenizer = bytes_tokenizer();
  EXPECT_EQ(tokenizer->vocab(), 256);
  EXPECT_EQ(tokenizer->separator(), 0);
  EXPECT_THAT(tokenizer->encode("Aé"), ElementsAre(65, 0xc3, 0xa9));
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(all)), all);
  EXPECT_THROW(tokenizer->decode(std::vector<std::int32_t>{256}), Error);
  EXPECT_THROW(tokenizer->decode(std::vector<std::int32_t>{-1}), Error);
}

TEST(BytesTokenizer, AppendsToWhatIsThere) {
  std::vector<std::int32_t> ids = {7};
  bytes_tokenizer()->encode("ab", TextPlace::continuation, ids);
  EXPECT_THAT(ids, ElementsAre(7, 97, 98));
}

TEST(TokenizerSpec, ATokenizerComesBackFromItsSpec) {
  const auto bytes = bytes_tokenizer();
  EXPECT_EQ(bytes->spec().identity(), "bytes");
  EXPECT_THAT(make_tokenizer(bytes->spec(), "x")->encode("ab"), ElementsAre(97, 98));
  EXPECT_EQ(TokenizerSpec{}.identity(), "none");
  EXPECT_THAT(message_of<Error>([] { make_tokenizer({}, "file a"); }), HasSubstr("file a"));
}

TEST(TokenizerSpec, WhatIsNoModelIsRefusedByName) {
  const ScratchFolder scratch;
  const TokenizerSpec damaged{TokenizerKind::sentencepiece, "no model at all"};
  EXPECT_THAT(message_of<Error>([&] { make_tokenizer(damaged, "file a"); }), HasSubstr("file a"));
  for (const std::string& path :
       {scratch / "absent.model", scratch.path().string(), scratch.write("text.model", "text"),
        scratch.write("empty.model", "")}) {
    EXPECT_THAT(message_of<Error>([&] { sentencepiece_tokenizer(path); }), HasSubstr(path));
  }
}

}  // namespace
}  // namespace trireme
