#include "lib/interchange/chat_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/chat/chat_jinja.hpp"
#include "lib/chat/chat_jinja_text.hpp"
#include "lib/chat/chat_template_file.hpp"
#include "tests/support/message_of.hpp"
#include "tests/tokenizer/letters.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* config_file = "tokenizer_config.json";

TokenizerSpec trained_with(const ChatTemplate& t, HfFiles beside = {}) {
  auto spec = tokenizer_of_letters("abcQA:", {"<s>", "</s>", "<|im_start|>", "<|im_end|>"},
                                   std::move(beside));
  spec.chat = chat_template_text(t);
  return spec;
}
TokenizerFiles files_with(const TokenizerSpec& spec) {
  auto files = files_of(spec, "here");
  add_chat_template(files, spec, "here");
  return files;
}
std::string jinja_in(const TokenizerFiles& files) {
  return parse_json(files.contents.at(config_file)).at("chat_template");
}

TEST(ChatFiles, ATemplateGoesBesideTheTokenizer) {
  const auto chatml = chat_template_named("chatml");
  const HfFiles beside{{config_file, R"({"eos_token": "</s>", "legacy": true})"}};
  const auto files = files_with(trained_with(chatml, beside));
  EXPECT_EQ(jinja_in(files), jinja_text(chatml));
  EXPECT_EQ(parse_json(files.contents.at(config_file)).at("legacy"), true);
  EXPECT_THAT(files.ids.ends, ElementsAre(9, 7)) << "<|im_end|>, </s>";

  auto untold = trained_with(chatml, beside);
  untold.chat.clear();
  EXPECT_EQ(files_with(untold).contents.at(config_file), beside.at(config_file));
  untold.chat = "[user";
  EXPECT_THAT(message_of<Error>([&] { files_with(untold); }),
              HasSubstr("the chat template in here:1:"));
}

TEST(ChatFiles, TheTokenizersOwnStaysWhereItIsTheTemplate) {
  const auto chatml = chat_template_named("chatml");
  const std::string its = "{{ '<|im_start|>' }}{{ '<|im_end|>' }}";  // looks like chatml
  const HfFiles beside{{"chat_template.jinja", its}, {config_file, "{ }"}};
  auto files = files_with(trained_with(chatml, beside));
  EXPECT_EQ(files.contents.at("chat_template.jinja"), its);
  EXPECT_EQ(files.contents.at(config_file), "{ }");

  auto other = chatml;
  other.turns["user"].before = "Q:";
  files = files_with(trained_with(other, beside));
  EXPECT_FALSE(files.contents.contains("chat_template.jinja"));
  EXPECT_EQ(jinja_in(files), exported_jinja(other));
  for (const auto& text : {jinja_text(other), exported_jinja(other)}) {
    const auto written = trained_with(other, {{"chat_template.jinja", text}});
    EXPECT_EQ(files_with(written).contents, files_of(written, "here").contents);
  }
}

// Jinja knows begin and end by the names that a tokenizer's files give them.
TEST(ChatFiles, TokensThatNoFileNamesAreWrittenOut) {
  const auto mistral = chat_template_named("mistral");
  const auto bare = jinja_in(files_with(trained_with(mistral)));
  EXPECT_THAT(bare, HasSubstr("'<s>'"));
  EXPECT_EQ(bare.find("bos_token"), std::string::npos) << bare;
  const auto named = jinja_in(files_with(
      trained_with(mistral, {{config_file, R"({"bos_token": "<s>", "eos_token": "</s>"})"}})));
  EXPECT_EQ(named, jinja_text(mistral));
  EXPECT_THAT(named, HasSubstr("bos_token"));
}

TEST(ChatFiles, OfBytesAreTurnsOfPlainText) {
  ChatTemplate t;
  t.turns = {{"user", {"Q: ", "\n"}}, {"assistant", {"A: ", "\n"}}};
  const auto files = files_with({TokenizerKind::bytes, "", chat_template_text(t)});
  EXPECT_EQ(jinja_in(files), exported_jinja(t));
  EXPECT_THAT(files.ids.ends, ElementsAre(0));
}

}  // namespace
}  // namespace trireme
