#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lib/base/error.hpp"
#include "lib/corpus/text_source.hpp"
#include "lib/corpus/tokenize.hpp"
#include "lib/tokenizer/tokenizer.hpp"
#include "tests/data/token_files.hpp"
#include "tests/tokenizer/sentencepiece_model.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

struct Flavour {
  const char *type, *normalisation;
};

class SentencePiece : public testing::TestWithParam<Flavour> {
 protected:
  static const TokenizerSpec& spec_of(const Flavour& f) {
    static std::map<std::pair<std::string, std::string>, TokenizerSpec> trained;
    auto& spec = trained[{f.type, f.normalisation}];
    if (spec.bytes.empty()) spec = train_sentencepiece(f.type, f.normalisation);
    return spec;
  }
  const TokenizerSpec spec_ = spec_of(GetParam());
  const std::unique_ptr<Tokenizer> tokenizer_ = make_tokenizer(spec_, "the test's model");
};

INSTANTIATE_TEST_SUITE_P(Flavours, SentencePiece,
                         testing::Values(Flavour{"unigram", "nmt_nfkc"}, Flavour{"bpe", "nmt_nfkc"},
                                         Flavour{"unigram", "identity"},
                                         Flavour{"bpe", "identity"}),
                         [](const auto& p) {
                           return std::string(p.param.type) + "_" + p.param.normalisation;
                         });

TEST_P(SentencePiece, DecodesWhatItEncoded) {
  const std::string text = "the ships rowed past a town, and waves broke.";
  const auto ids = tokenizer_->encode(text);
  EXPECT_LT(ids.size(), text.size());
  for (const auto id : ids) EXPECT_LT(id, tokenizer_->vocab());
  EXPECT_EQ(tokenizer_->decode(ids), text);
  EXPECT_EQ(tokenizer_->separator(), 2);  // </s>
  EXPECT_THROW(tokenizer_->decode(std::vector<std::int32_t>{tokenizer_->vocab()}), Error);
  EXPECT_THROW(tokenizer_->decode(std::vector<std::int32_t>{-1}), Error);
}

TEST_P(SentencePiece, ATextCutAtALineEndOrSpaceEncodesToTheSame) {
  const std::string text =
      "the ships rowed\npast three  harbours,\n\n and a town\n\twhere oars broke\n";
  const auto whole = tokenizer_->encode(text);
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    const bool line_end = text[cut - 1] == '\n' && text[cut] != '\n';
    const bool space = text[cut] == ' ' && text[cut - 1] != ' ' && text[cut - 1] != '\n';
    if (!line_end && !space) continue;
    std::vector<std::int32_t> ids;
    tokenizer_->encode(std::string_view(text).substr(0, cut), TextPlace::start, ids);
    tokenizer_->encode(std::string_view(text).substr(cut), TextPlace::continuation, ids);
    EXPECT_EQ(ids, whole) << "cut at " << cut;
  }
}

TEST_P(SentencePiece, ALongDocumentIsEncodedAsAWhole) {
  const ScratchFolder scratch;
  std::string text;
  while (text.size() < 2 * item_bytes) text += training_text();
  TokenizeOptions options;
  options.inputs = {scratch.write("long.txt", text)};
  options.output = scratch / "tokens";
  options.tokenizer = tokenizer_.get();
  options.separator = tokenizer_->separator();
  tokenize(options);
  auto expected = tokenizer_->encode(text);
  expected.push_back(2);
  EXPECT_EQ(all_ids(scratch / "tokens"), expected);
  EXPECT_EQ(TokenFile(scratch / "tokens").tokenizer(), spec_);
}

TEST_P(SentencePiece, PromptAndCompletionJoinAsTheyStand) {
  const ScratchFolder scratch;
  const std::string prompt = "the ships", completion = " rowed past a town.";
  TokenizeOptions options;
  options.inputs = {
      scratch.write("a.jsonl", R"({"q": ")" + prompt + R"(", "a": ")" + completion + "\"}\n")};
  options.output = scratch / "tokens";
  options.prompt = "q";
  options.completion = "a";
  options.tokenizer = tokenizer_.get();
  options.separator = 2;
  tokenize(options);
  auto expected = tokenizer_->encode(prompt + completion);
  const auto of_prompt = static_cast<std::int64_t>(tokenizer_->encode(prompt).size());
  expected.push_back(2);
  ASSERT_EQ(all_ids(scratch / "tokens"), expected);
  const TokenFile file(scratch / "tokens");
  for (std::int64_t i = 0; i < file.count(); ++i) EXPECT_EQ(is_target(file, i), i >= of_prompt);
}

TEST(SentencePieceSpec, IdentityTellsModelsApart) {
  const auto one = train_sentencepiece("unigram", "nmt_nfkc");
  const auto other = train_sentencepiece("bpe", "nmt_nfkc");
  EXPECT_THAT(one.identity(), HasSubstr("sentencepiece:"));
  EXPECT_NE(one.identity(), other.identity());
  EXPECT_EQ(make_tokenizer(one, "x")->spec().identity(), one.identity());
}

}  // namespace
}  // namespace trireme
