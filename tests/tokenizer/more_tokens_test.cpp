#include "lib/tokenizer/more_tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/tokenizer/hf_files.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

// Words a, b and "long", which no merge makes, and the special token <end>.
TokenizerSpec tokenizer() {
  auto json = byte_level_bpe({{"a", 0}, {"b", 1}, {"long", 2}}, Json::array());
  json["added_tokens"].push_back({{"id", 3}, {"content", "<end>"}, {"special", true}});
  return {TokenizerKind::huggingface, pack({{"tokenizer.json", json.dump()}}, "made up")};
}

std::vector<std::int32_t> ids_of(const TokenizerSpec& spec, std::string_view text) {
  std::vector<std::int32_t> ids;
  make_tokenizer(spec, "made up")->encode(text, TextPlace::start, ids);
  return ids;
}

TEST(MoreTokens, GetTheNextIds) {
  const std::vector<NewToken> tokens{{"<x>", false}, {"<y>", true}};
  const auto more = with_tokens(tokenizer(), tokens, "made up");
  EXPECT_EQ(more.ids, (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(more.known, (std::vector<std::uint8_t>{0, 0}));
  EXPECT_EQ(ids_of(more.spec, "a<x>b<y><end>"), (std::vector<std::int32_t>{0, 4, 1, 5, 3}));
}

TEST(MoreTokens, KnownTokensAndWordsKeepTheirIds) {
  const std::vector<NewToken> tokens{{"<end>", false}, {"long", false}, {"<x>", false}};
  const auto more = with_tokens(tokenizer(), tokens, "made up");
  EXPECT_EQ(more.ids, (std::vector<std::int32_t>{3, 2, 4}));
  EXPECT_EQ(more.known, (std::vector<std::uint8_t>{1, 0, 0}));
  EXPECT_EQ(ids_of(more.spec, "along<x>"), (std::vector<std::int32_t>{0, 2, 4}));
}

TEST(MoreTokens, WhatIsNoNewTokenIsRefused) {
  const auto refusal = [](const TokenizerSpec& spec, const std::vector<NewToken>& tokens) {
    return message_of<Error>([&] { static_cast<void>(with_tokens(spec, tokens, "made up")); });
  };
  EXPECT_THAT(refusal({TokenizerKind::bytes, {}}, {{"<x>"}}),
              HasSubstr("made up has no tokenizer.json"));
  EXPECT_THAT(refusal(tokenizer(), {{""}}), HasSubstr("must be text in UTF-8"));
  EXPECT_THAT(refusal(tokenizer(), {{"\xff"}}), HasSubstr("must be text in UTF-8"));
  EXPECT_THAT(refusal(tokenizer(), {{"<x>"}, {"<x>", true}}), HasSubstr("given twice"));
}

}  // namespace
}  // namespace trireme
