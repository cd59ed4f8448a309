// Endings as tokens, by hand from the rules of lm-evaluation-harness: of context and ending, what
// is behind as many tokens as the context alone has, both with the tokenizer's prefix.
#include "lib/run/multiple_choice.hpp"

#include <gtest/gtest.h>

#include "lib/base/json.hpp"
#include "lib/tokenizer/byte_alphabet.hpp"
#include "lib/tokenizer/hf_files.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

constexpr std::int32_t pair = 256, begin = 257, end = 258;

enum class Prefix : std::uint8_t { none, written };

// Bytes, and "ab" as one token; <bos> and <eos>, as far as they are named.
std::unique_ptr<Tokenizer> tokenizer_with(Prefix prefix, const Json& named) {
  Json vocabulary = Json::object();
  for (int b = 0; b < 256; ++b)
    vocabulary[token_of_bytes(std::string(1, static_cast<char>(b)))] = b;
  vocabulary["ab"] = pair;
  auto json = byte_level_bpe(vocabulary, Json::array({"a b"}));
  for (const auto& [id, text] : {std::pair{begin, "<bos>"}, std::pair{end, "<eos>"}})
    json["added_tokens"].push_back({{"id", id}, {"content", text}, {"special", true}});
  if (prefix == Prefix::written)
    json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<bos>": {"id": "<bos>", "ids": [257], "tokens": ["<bos>"]}}})");
  const Json files{{"tokenizer.json", json.dump()}, {"tokenizer_config.json", named.dump()}};
  return make_tokenizer({TokenizerKind::huggingface, files.dump()}, "a test");
}

const Json both{{"bos_token", "<bos>"}, {"eos_token", "<eos>"}};

// The tokens in front of the ending, then its own.
using Parts = std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>;
Parts parts(const Tokenizer& tokenizer, std::string_view context, std::string_view ending) {
  const auto e = encode_ending(tokenizer, context, ending);
  const auto first = e.ids.begin() + static_cast<std::ptrdiff_t>(e.first);
  return {{e.ids.begin(), first}, {first, e.ids.end()}};
}

TEST(MultipleChoice, ContextAndEndingHaveTheTokenizersPrefix) {
  const auto plain = tokenizer_with(Prefix::none, both),
             with = tokenizer_with(Prefix::written, both);
  EXPECT_EQ(parts(*plain, "x", "y"), Parts({'x'}, {' ', 'y'}));
  EXPECT_EQ(parts(*with, "x", "y"), Parts({begin, 'x'}, {' ', 'y'}));
  EXPECT_EQ(parts(*with, "x \v\f", " y"), Parts({begin, 'x'}, {' ', '\v', '\f', ' ', 'y'}));
  EXPECT_EQ(parts(*with, "xab", "b"), Parts({begin, 'x', pair}, {' ', 'b'}));
  // A context that has it written out does not get it twice.
  EXPECT_EQ(parts(*with, "<bos>x", "y"), Parts({begin, 'x'}, {' ', 'y'}));
}

TEST(MultipleChoice, AnEndingAloneIsBehindTheBeginOfTextOrElseTheSeparator) {
  for (const auto prefix : {Prefix::none, Prefix::written})
    for (const char* context : {"", " "}) {
      auto own = Parts({begin}, {' ', 'y'});
      if (*context) own.second.insert(own.second.begin(), ' ');
      EXPECT_EQ(parts(*tokenizer_with(prefix, both), context, "y"), own);
    }
  EXPECT_EQ(parts(*tokenizer_with(Prefix::none, {{"eos_token", "<eos>"}}), "", "y"),
            Parts({end}, {' ', 'y'}));
  EXPECT_EQ(parts(*tokenizer_with(Prefix::written, {{"eos_token", "<eos>"}}), "", "y"),
            Parts({begin}, {' ', 'y'}));
  EXPECT_EQ(parts(*bytes_tokenizer(), "", "y"), Parts({0}, {' ', 'y'}));
  const auto none = tokenizer_with(Prefix::none, Json::object());
  EXPECT_NE(message_of<Error>([&] { encode_ending(*none, "", "y"); }).find("without a context"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
