#include "lib/tokenizer/text_pipeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "lib/base/error.hpp"
#include "lib/tokenizer/split_patterns.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/source_dir.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

const nlohmann::json& fixtures() {
  static const auto all =
      nlohmann::json::parse(std::ifstream(test::source_dir() / "tests/tokenizer/fixtures.json"));
  return all;
}

std::vector<std::int32_t> ids_of(const TextPipeline& pipeline, std::string_view text,
                                 bool continues = false) {
  std::vector<std::int32_t> ids;
  pipeline.encode(text, continues, ids);
  return ids;
}

TEST(TextPipeline, IdsAndTextsAreThoseOfTheReference) {
  ASSERT_EQ(fixtures().size(), 5U);
  for (const auto& f : fixtures()) {
    const TextPipeline pipeline(f.at("tokenizer").dump());
    for (std::size_t i = 0; i < f.at("texts").size(); ++i) {
      const auto text = f.at("texts")[i].get<std::string>();
      const auto ids = f.at("ids")[i].get<std::vector<std::int32_t>>();
      EXPECT_EQ(ids_of(pipeline, text), ids) << f.at("name") << " of " << f.at("texts")[i];
      EXPECT_EQ(pipeline.decode(ids), f.at("decoded")[i].get<std::string>()) << f.at("name");
    }
  }
}

// With the added tokens of a tokenizer.
std::string random_text(std::size_t pieces, std::mt19937& random,
                        const nlohmann::json& added = nlohmann::json::array()) {
  std::vector<std::string> parts = {"the", "word", " ",  " ",      "  ",   "\n",   "\n\n",
                                    "é",   "'s",   "12", "3456",   ".",    ");\n", "/",
                                    "日",  "\t",   "ab", "<mask>", "<pad>"};
  for (const auto& token : added) parts.push_back(token.at("content").get<std::string>());
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) text += parts[random() % parts.size()];
  return text;
}

TEST(TextPipeline, PartsOfACutTextHaveTheIdsOfTheWhole) {
  std::mt19937 random(1);
  auto all = fixtures();
  // With a pattern that takes slashes behind line ends, and the two merged before all others, in
  // the place of the last.
  all.push_back(fixtures()[1]);
  all.back()["name"] = "o200k";
  auto& tokenizer = all.back()["tokenizer"];
  tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = o200k_pattern;
  auto& model = tokenizer["model"];
  const auto last = model["merges"].back();
  model["vocab"].erase(last[0].get<std::string>() + last[1].get<std::string>());
  model["vocab"]["\u010A/"] = 699;
  model["merges"].erase(model["merges"].size() - 1);
  model["merges"].insert(model["merges"].begin(), nlohmann::json::array({"\u010A", "/"}));
  for (const auto& f : all) {
    const TextPipeline pipeline(f.at("tokenizer").dump());
    int cuts = 0;
    for (int t = 0; t < 400; ++t) {
      const auto text = random_text(60, random, f.at("tokenizer").at("added_tokens"));
      const auto cut = pipeline.cut_place(text, 1 + random() % (text.size() - 1));
      if (!cut) continue;
      ++cuts;
      auto ids = ids_of(pipeline, text.substr(0, *cut));
      const auto rest = ids_of(pipeline, text.substr(*cut), true);
      ids.insert(ids.end(), rest.begin(), rest.end());
      EXPECT_EQ(ids, ids_of(pipeline, text)) << f.at("name") << " at " << *cut << " of " << text;
    }
    EXPECT_GT(cuts, 200) << f.at("name");
  }
}

// As tokenizers has it, on a vocabulary that is small enough to merge by hand.
TEST(TextPipeline, SettingsThatNoneOfTheReferencesHas) {
  const auto tiny = nlohmann::json::parse(R"({"added_tokens": [], "model": {
      "type": "BPE", "unk_token": "?", "merges": ["a b", "1 2", "a \u0663"],
      "vocab": {"?": 0, "a": 1, "b": 2, "1": 3, "2": 4, "\u0663": 5, "ab": 6, "12": 7,
                "a\u0663": 8, "aba": 9}}})");
  const struct {
    const char *changes, *text;
    std::vector<std::int32_t> ids;
  } cases[] = {
      {"{}", "ab12a\u0663", {6, 7, 8}},
      {R"({"pre_tokenizer": {"type": "Digits"}})", "ab12a\u0663", {6, 7, 1, 5}},
      {R"({"pre_tokenizer": {"type": "Digits", "individual_digits": true}})",
       "ab12a\u0663",
       {6, 3, 4, 1, 5}},
      {"{}", "xya", {0, 0, 1}},
      {R"({"model": {"fuse_unk": true}})", "xya", {0, 1}},
      {"{}", "aba", {6, 1}},
      {R"({"model": {"ignore_merges": true}})", "aba", {9}},
      {R"({"model": {"ignore_merges": true}, "pre_tokenizer":
           {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}})",
       "aba",
       {9}},
      // A special token is looked for before a text is normalised.
      {R"({"normalizer": {"type": "Replace", "pattern": {"String": "S"}, "content": "b"},
           "added_tokens": [{"id": 10, "content": "<S>", "special": true}]})",
       "<S><b>",
       {10, 0, 2, 0}},
  };
  for (const auto& c : cases) {
    auto json = tiny;
    json.merge_patch(nlohmann::json::parse(c.changes));
    EXPECT_EQ(ids_of(TextPipeline(json.dump()), c.text), c.ids) << c.changes << " of " << c.text;
  }
}

TEST(TextPipeline, WhatAPostProcessorPutsBehindATextIsNoPrefix) {
  auto json = fixtures()[1].at("tokenizer");
  EXPECT_EQ(TextPipeline(json.dump()).prefix(), std::vector<std::int32_t>{0});
  auto& post = json["post_processor"];
  post["special_tokens"]["<|end|>"] = {{"id", "<|end|>"}, {"ids", {1}}};
  post["single"].push_back({{"SpecialToken", {{"id", "<|end|>"}}}});
  EXPECT_EQ(TextPipeline(json.dump()).prefix(), std::vector<std::int32_t>{0});
}

// Of bytes that are no character there is a replacement each.
TEST(TextPipeline, HalfACharacterIsShownByteForByte) {
  const TextPipeline llama2(fixtures()[3].at("tokenizer").dump());
  const std::vector<std::int32_t> ids{*llama2.id_of("<0xE6>"), *llama2.id_of("<0x97>")};
  EXPECT_EQ(llama2.decode(ids), "\uFFFD\uFFFD");
}

// SentencePiece puts a space first.
TEST(TextPipeline, TokensHaveTheBytesOfTheirText) {
  const std::string text = "two  words, naïve 日本語\n";
  for (const auto& f : fixtures()) {
    const TextPipeline pipeline(f.at("tokenizer").dump());
    std::size_t bytes = 0;
    for (const auto id : ids_of(pipeline, text)) bytes += pipeline.text_bytes(id).value_or(0);
    EXPECT_EQ(bytes, text.size() + f.at("name").get<std::string>().starts_with("llama2"))
        << f.at("name");
  }
}

// What stands behind an added token begins anew, which a part alone would not know.
TEST(TextPipeline, NoTextIsCutBehindAnAddedLineEnd) {
  for (const auto& f : fixtures()) {
    auto tokenizer = f.at("tokenizer");
    const auto next = TextPipeline(tokenizer.dump()).vocab();
    const auto& vocabulary = tokenizer.at("model").at("vocab");
    tokenizer["added_tokens"].push_back({{"id", vocabulary.value("\n", next)},
                                         {"content", "\n"},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", false}});
    const TextPipeline pipeline(tokenizer.dump());
    EXPECT_FALSE(pipeline.cut_place("one two\nthree four", 12)) << f.at("name");
  }
}

TEST(TextPipeline, ByteLevelGivesTheTextBack) {
  std::mt19937 random(2);
  const TextPipeline pipeline(fixtures()[0].at("tokenizer").dump());
  for (int t = 0; t < 200; ++t) {
    std::string text = random_text(30, random);
    for (const auto* taken : {"<mask>", "<pad>"})  // they take the spaces beside them
      for (auto at = text.find(taken); at != std::string::npos; at = text.find(taken))
        text.erase(at, std::string_view(taken).size());
    EXPECT_EQ(pipeline.decode(ids_of(pipeline, text)), text);
  }
}

TEST(TextPipeline, BytesThatAreNoTextCountAsReplacements) {
  const TextPipeline pipeline(fixtures()[0].at("tokenizer").dump());
  EXPECT_EQ(ids_of(pipeline, "a\xff\xe2\x82z"), ids_of(pipeline, "a\xEF\xBF\xBD\xEF\xBF\xBDz"));
}

TEST(TextPipeline, WhatIsNotSupportedIsRefusedByName) {
  const auto refusal = [](const char* key, const nlohmann::json& value) {
    auto all = fixtures()[0].at("tokenizer");
    all[nlohmann::json::json_pointer(key)] = value;
    return message_of([&] { const TextPipeline pipeline(all.dump()); });
  };
  using Json = nlohmann::json;
  EXPECT_EQ(refusal("/normalizer", nullptr), "");
  EXPECT_THAT(refusal("/normalizer", Json{{"type", "BertNormalizer"}}),
              HasSubstr("BertNormalizer"));
  EXPECT_THAT(refusal("/pre_tokenizer", Json{{"type", "Whitespace"}}), HasSubstr("Whitespace"));
  EXPECT_THAT(refusal("/decoder", Json{{"type", "WordPiece"}}), HasSubstr("WordPiece"));
  EXPECT_THAT(refusal("/model/type", "Unigram"), HasSubstr("Unigram"));
  EXPECT_THAT(refusal("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(refusal("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(refusal("/model/merges", 3), HasSubstr("merge"));
  EXPECT_THAT(refusal("/post_processor", Json{{"type", "Other"}}), HasSubstr("Other"));
  const Json spaces{{"type", "Metaspace"}, {"replacement", ""}, {"prepend_scheme", "never"}};
  EXPECT_THAT(refusal("/pre_tokenizer", spaces), HasSubstr("Metaspace"));
  EXPECT_THAT(refusal("/decoder", spaces), HasSubstr("Metaspace"));
  Json deep{{"type", "NFC"}};
  for (int i = 0; i < 100; ++i) deep = {{"type", "Sequence"}, {"normalizers", Json::array({deep})}};
  EXPECT_THAT(refusal("/normalizer", deep), HasSubstr("nested more than"));
  EXPECT_THAT(refusal("/added_tokens", Json::array({{{"id", 1 << 20},
                                                     {"content", "<far>"},
                                                     {"special", true},
                                                     {"normalized", false},
                                                     {"lstrip", false},
                                                     {"rstrip", false},
                                                     {"single_word", false}}})),
              HasSubstr("the tokenizers library gives it"));
  // An id is a number that is taken as it stands: it does not wrap, and has no fraction.
  for (const Json& id : {Json(4294967296 + 256), Json(256.9), Json(256.0), Json(-1), Json(1 << 24),
                         Json("7"), Json(18446744073709551615U)}) {
    EXPECT_THAT(refusal("/model/vocab/a", id), HasSubstr("id of a")) << id;
    EXPECT_THAT(refusal("/added_tokens", Json::array({{{"id", id}, {"content", "<far>"}}})),
                HasSubstr("id of <far>"))
        << id;
    EXPECT_THAT(refusal("/post_processor", Json{{"type", "BertProcessing"}, {"cls", {"x", id}}}),
                HasSubstr("post-processor"))
        << id;
  }
  for (const auto* pattern : {"a{2}+", "[a-z&&[aeiou]]", "^a", "\\h", "(?<name>a)", "(", "(?m)a"})
    EXPECT_THAT(refusal("/pre_tokenizer", Json{{"type", "Split"},
                                               {"pattern", {{"Regex", pattern}}},
                                               {"behavior", "Isolated"}}),
                HasSubstr("pattern"))
        << pattern;
}

TEST(Split, MatchesGoWhereTheBehaviorSays) {
  // As the documentation of tokenizers has it: "the-final--countdown" split at '-'.
  const std::vector<Found> parts = {{{0, 3}, false}, {{3, 4}, true},   {{4, 9}, false},
                                    {{9, 10}, true}, {{10, 11}, true}, {{11, 20}, false}};
  const auto spans = [&](Delimiter delimiter) {
    std::vector<TextSpan> out;
    join(parts, delimiter, out);
    return out;
  };
  using TextSpans = std::vector<TextSpan>;
  EXPECT_EQ(spans(Delimiter::removed), (TextSpans{{0, 3}, {4, 9}, {11, 20}}));
  EXPECT_EQ(spans(Delimiter::isolated),
            (TextSpans{{0, 3}, {3, 4}, {4, 9}, {9, 10}, {10, 11}, {11, 20}}));
  EXPECT_EQ(spans(Delimiter::previous), (TextSpans{{0, 4}, {4, 10}, {10, 11}, {11, 20}}));
  EXPECT_EQ(spans(Delimiter::next), (TextSpans{{0, 3}, {3, 9}, {9, 10}, {10, 20}}));
  EXPECT_EQ(spans(Delimiter::contiguous), (TextSpans{{0, 3}, {3, 4}, {4, 9}, {9, 11}, {11, 20}}));
}

}  // namespace
}  // namespace trireme
