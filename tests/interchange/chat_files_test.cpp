#include "lib/interchange/chat_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/chat/chat_template.hpp"
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
  spec.chat = chat_text_of(
      {t.jinja, t.jinja == chat_template_named("chatml").jinja ? "<|im_end|>" : "</s>"});
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
  EXPECT_EQ(jinja_in(files), chatml.jinja);
  EXPECT_EQ(parse_json(files.contents.at(config_file)).at("legacy"), true);
  EXPECT_THAT(files.ids.ends, ElementsAre(9, 7)) << "<|im_end|>, </s>";

  auto untold = trained_with(chatml, beside);
  untold.chat.clear();
  EXPECT_EQ(files_with(untold).contents.at(config_file), beside.at(config_file));
  // A template of Trireme 0.1 is no Jinja: the tokenizer's own stays.
  untold.chat = "[user]";
  EXPECT_EQ(files_with(untold).contents.at(config_file), beside.at(config_file));
  untold.chat = "{";
  EXPECT_THAT(message_of<Error>([&] { files_with(untold); }),
              HasSubstr("the chat template in here is damaged"));
}

TEST(ChatFiles, TheTokenizersOwnStaysWhereItIsTheTemplate) {
  const auto chatml = chat_template_named("chatml");
  auto files = files_with(trained_with(chatml, {{"chat_template.jinja", chatml.jinja}}));
  EXPECT_EQ(files.contents.at("chat_template.jinja"), chatml.jinja);
  EXPECT_FALSE(files.contents.contains(config_file));
  EXPECT_THAT(files.ids.ends, testing::Contains(9)) << "<|im_end|>";
  files = files_with(trained_with(chatml, {{"chat_template.jinja", "{{ 1 }}"}}));
  EXPECT_FALSE(files.contents.contains("chat_template.jinja"));
  EXPECT_EQ(jinja_in(files), chatml.jinja);
}

// Jinja knows begin and end by the names that a tokenizer's files give them.
TEST(ChatFiles, TokensThatNoFileNamesAreWrittenOut) {
  const auto mistral = chat_template_named("mistral");
  const auto bare = jinja_in(files_with(trained_with(mistral)));
  EXPECT_EQ(bare,
            "{%- set bos_token = '<s>' -%}\n{%- set eos_token = '</s>' -%}\n" + mistral.jinja);
  const auto named = jinja_in(files_with(
      trained_with(mistral, {{config_file, R"({"bos_token": "<s>", "eos_token": "</s>"})"}})));
  EXPECT_EQ(named, mistral.jinja);
}

TEST(ChatFiles, OfBytesAreTurnsOfPlainText) {
  const std::string jinja = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
  const auto files = files_with({TokenizerKind::bytes, "", chat_text_of({jinja, "\n"})});
  EXPECT_EQ(jinja_in(files), jinja);
  EXPECT_THAT(files.ids.ends, ElementsAre(0));
}

}  // namespace
}  // namespace trireme
