#include "lib/tokenizer/same_tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/corpus/tokenize.hpp"
#include "lib/data/deck_data.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"
#include "tests/tokenizer/letters.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool compatible(const TokenizerSpec& a, const TokenizerSpec& b) {
  const bool one = compatible(a, "a", b, "b");
  EXPECT_EQ(compatible(b, "b", a, "a"), one);
  return one;
}
std::vector<std::int32_t> ends_of(const TokenizerSpec& spec) {
  return make_tokenizer(spec, "a test")->ends();
}

TEST(SameTokenizer, IsOneWhoseIdsMeanTheSameTexts) {
  const auto abc = tokenizer_of_letters("abc");
  EXPECT_TRUE(compatible(abc, abc));
  EXPECT_TRUE(
      compatible(abc, tokenizer_of_letters("abc", {}, {{"chat_template.jinja", "{{ x }}"}})));
  EXPECT_TRUE(compatible(abc, tokenizer_of_letters("abc", {"<|im_end|>"}))) << "one has more";
  EXPECT_FALSE(compatible(abc, tokenizer_of_letters("acb")));
  EXPECT_FALSE(
      compatible(tokenizer_of_letters("abc", {"<x>"}), tokenizer_of_letters("abc", {"<y>"})));
  const TokenizerSpec bytes{TokenizerKind::bytes, {}};
  EXPECT_FALSE(compatible(abc, bytes));
  EXPECT_TRUE(compatible(bytes, {}));
  EXPECT_THAT(message_of<Error>([&] {
                compatible(bytes, {TokenizerKind::huggingface, "{"});
              }),
              HasSubstr("damaged tokenizer"));
}

// What one of a tokenizer's files leaves open, the other may say.
TEST(SameTokenizer, EndsAreWhatItsFilesSay) {
  const auto ends = [&](const char* config, const char* map, const char* generation) {
    return ends_of(tokenizer_of_letters("abc", {"<e>", "<t>"},
                                        {{"tokenizer_config.json", config},
                                         {"special_tokens_map.json", map},
                                         {"generation_config.json", generation}}));
  };
  EXPECT_THAT(ends(R"({"eos_token": null})", R"({"eos_token": "<t>"})", "{}"), ElementsAre(4));
  EXPECT_THAT(ends(R"({"eos_token": "<e>"})", R"({"eos_token": "<t>"})", "{}"), ElementsAre(3));
  EXPECT_THAT(ends("{}", "{}", R"({"eos_token_id": [3, 4, 3]})"), ElementsAre(3, 4));
  EXPECT_THAT(message_of<Error>([&] { ends("{}", "{}", R"({"eos_token_id": 16777216})"); }),
              HasSubstr("'eos_token_id of a test: generation_config.json' = 16777216 is out of"));
}

TEST(SameTokenizer, MergedKnowsWhatBothDo) {
  const auto alone = tokenizer_of_letters("abc", {"<e>", "<t>"});
  const auto folder =
      tokenizer_of_letters("abc", {"<e>", "<t>"},
                           {{"chat_template.jinja", "{{ x }}"},
                            {"tokenizer_config.json", R"({"eos_token": "<e>"})"},
                            {"generation_config.json", R"({"top_k": 20, "eos_token_id": 3})"}});
  EXPECT_EQ(merged(alone, folder), folder);
  EXPECT_EQ(merged(folder, alone), folder);
  EXPECT_EQ(merged({}, alone), alone);
  const auto more = tokenizer_of_letters("abc", {"<e>", "<t>", "<u>"});
  EXPECT_EQ(merged(more, folder), more);
  EXPECT_EQ(merged(folder, more), more);

  const auto taught = with_end(folder, 4);
  EXPECT_THAT(ends_of(taught), testing::UnorderedElementsAre(3, 4));
  EXPECT_EQ(with_end(taught, 4), taught);
  for (const auto& both : {merged(taught, folder), merged(folder, taught)})
    EXPECT_THAT(ends_of(both), testing::UnorderedElementsAre(3, 4));
  EXPECT_THAT(ends_of(merged(with_end(alone, 4), folder)), testing::UnorderedElementsAre(3, 4));
  const auto files = unpack(merged(with_end(alone, 4), folder).bytes, "a test");
  EXPECT_EQ(parse_json(files.at("generation_config.json")).at("top_k"), 20);
  EXPECT_EQ(parse_json(unpack(with_end(alone, 4).bytes, "").at("generation_config.json")),
            parse_json(R"({"eos_token_id": 4})"));
  EXPECT_EQ(with_end(bytes_tokenizer()->spec(), 4), bytes_tokenizer()->spec());
}

TEST(SameTokenizer, MergedHasTheFirstsChatTemplate) {
  auto abc = tokenizer_of_letters("abc", {"<e>", "<t>"}),
       more = tokenizer_of_letters("abc", {"<e>", "<t>", "<u>"});
  auto other = abc, written = more;
  written.chat = "a";
  other.chat = "b";
  EXPECT_EQ(merged(abc, written), written);
  EXPECT_EQ(merged(written, abc), written);
  EXPECT_EQ(merged(written, other), written);
  EXPECT_EQ(merged(other, written).chat, "b");
  EXPECT_EQ(merged(other, written).bytes, more.bytes);
  EXPECT_EQ(merged({}, other), other);
  EXPECT_EQ(with_end(other, 4).chat, "b");
  EXPECT_TRUE(compatible(abc, other));
}

TEST(SameTokenizer, TokenFilesOfOneAreTrainedOnTogether) {
  const ScratchFolder scratch;
  const auto alone = tokenizer_of_letters("abc", {"<t>"});
  write_token_file(scratch / "a", counting(99, 3), {.vocab = 4, .tokenizer = alone});
  write_token_file(scratch / "b", counting(99, 3), {.vocab = 4, .tokenizer = with_end(alone, 3)});
  DataConfig config;
  config.path = {scratch / "a", scratch / "b"};
  const auto data = training_data(config, 8, 4, 0);
  EXPECT_EQ(data.tokenizer(), with_end(alone, 3));
}

// What answers end with is known to the file, and so to the checkpoints of what is trained on it.
TEST(SameTokenizer, ATokenFileOfConversationsKnowsTheirEnd) {
  const ScratchFolder scratch;
  const auto tokenizer =
      make_tokenizer(tokenizer_of_letters("abcU:A", {"<e>", "<t>"},
                                          {{"tokenizer_config.json", R"({"eos_token": "<e>"})"}}),
                     "a test");
  const std::string jinja =
      "{% for m in messages %}{{ ('U:' if m.role == 'user' else 'A:') + m.content }}<t>{% endfor "
      "%}";
  const ChatWriter chat({"t", jinja}, *tokenizer);
  TokenizeOptions o;
  o.inputs = {scratch.write("a.jsonl", R"({"messages": [{"role": "user", "content": "a"}, )"
                                       R"({"role": "assistant", "content": "b"}]})")};
  o.output = scratch / "out.tokens";
  o.tokenizer = tokenizer.get();
  o.chat = &chat;
  tokenize(o);
  EXPECT_EQ(stored_chat(TokenFile(o.output).tokenizer().chat, "")->jinja, jinja);
  EXPECT_THAT(ends_of(TokenFile(o.output).tokenizer()), testing::UnorderedElementsAre(6, 7));
  EXPECT_THAT(ends_of(tokenizer->spec()), ElementsAre(6));
}

}  // namespace
}  // namespace trireme
