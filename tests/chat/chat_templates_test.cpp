// Templates of conversations: their tokens, and which one a tokenizer brings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/chat/chat_jinja.hpp"
#include "lib/chat/chat_jinja_text.hpp"
#include "lib/chat/chat_text.hpp"
#include "tests/chat/toy_tokenizer.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ChatTemplates, TokensAreTheTokenizers) {
  const ToyTokenizer objects(
      {"<B>", "<E>"},
      {{"tokenizer_config.json", R"({"bos_token": {"content": "<B>"}, "eos_token": "<E>"})"}});
  EXPECT_EQ(write_chat(with_tokens_of(chat_template_named("mistral"), objects), short_talk).text,
            "<B>[INST] Hi [/INST]Yo<E>");
  EXPECT_THAT(message_of<Error>([&] { with_tokens_of(chat_template_named("chatml"), objects); }),
              HasSubstr("<|im_start|>, which the tokenizer does not have"));
  EXPECT_THAT(
      message_of<Error>([&] { with_tokens_of(chat_template_named("llama2"), *bytes_tokenizer()); }),
      HasSubstr("bos_token"));
  EXPECT_THAT(message_of<Error>([] { chat_template_named("none"); }),
              AllOf(HasSubstr("\"none\""), HasSubstr("chatml, qwen2")));
  // What the tokenizer's files do not name is not guessed.
  EXPECT_THAT(message_of<Error>([&] {
                with_tokens_of(chat_template_named("mistral"),
                               ToyTokenizer({"<s>", "</s>"}, {{"tokenizer_config.json", "{}"}}));
              }),
              HasSubstr("names no bos_token"));
}

// A template of a file need not say which of its texts are the tokenizer's tokens.
TEST(ChatTemplates, NoTokenOfTheTokenizerIsWrittenAsPlainText) {
  ChatTemplate t;
  t.name = "file";
  t.begin = "{bos}";
  t.turns = {{"user", {"<|user|>", ""}}, {"assistant", {"A: ", " <|end|>{eos}"}}};
  const ToyTokenizer tokenizer({"<s>", "</s>", "<|user|>", "<|end|>", "<|"});
  const auto full = with_tokens_of(t, tokenizer);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;
  encode_chat(tokenizer, write_chat(full, short_talk), ids, targets);
  EXPECT_THAT(ids, ElementsAre(1000, 1002, 'H', 'i', 'A', ':', ' ', 'Y', 'o', ' ', 1003, 1001));
  EXPECT_THAT(targets, ElementsAre(0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0));
  EXPECT_EQ(end_of_turn(full), "<|end|>");
  t.turns["assistant"].after = "\n";
  EXPECT_EQ(end_of_turn(with_tokens_of(t, tokenizer)), "");

  // Contents, and what is written as they are, are plain text.
  const auto refusal = [&](const ChatTemplate& wrong) {
    return message_of<Error>([&] { with_tokens_of(wrong, tokenizer); });
  };
  auto system = t;
  system.turns["system"] = {"", ""};
  EXPECT_EQ(refusal(system), "");
  system.default_system = "Be kind.<|end|>";
  EXPECT_THAT(refusal(system), AllOf(HasSubstr("<|end|>"), HasSubstr("plain text")));
  system.default_system = "{bos}Be kind.";
  EXPECT_THAT(refusal(system), AllOf(HasSubstr("{bos}"), HasSubstr("plain text")));
  system.default_system.clear();
  system.turns["system"] = {"<|user|>", ""};
  EXPECT_EQ(refusal(system), "");
  system.system = SystemPlace::first_user;
  EXPECT_THAT(refusal(system), AllOf(HasSubstr("<|user|>"), HasSubstr("plain text")));
}

// Another model's template is not learnt without the marks of its turns.
TEST(ChatTemplates, WhatLooksLikeATokenIsOne) {
  ChatTemplate t;
  t.name = "my.toml";
  t.turns = {{"user", {"Q: ", "\n"}}, {"assistant", {"A: ", "\n"}}};
  const ToyTokenizer tokenizer({"<s>", "<|known|>"});
  const auto refusal = [&](const std::string& before, const std::vector<std::string>& plain = {}) {
    t.turns["user"].before = before;
    t.plain = plain;
    return message_of<Error>([&] { with_tokens_of(t, tokenizer); });
  };
  EXPECT_THAT(refusal("a<|im_start|>user\n"), AllOf(HasSubstr("my.toml writes <|im_start|>"),
                                                    HasSubstr("plain = [\"<|im_start|>\"]")));
  for (const auto* other : {"<start_of_turn>", "</x>", "< <x>", "<<SYS>>\n", "<\uff5cUser\uff5c>"})
    EXPECT_THAT(refusal(other), HasSubstr("looks like a special token")) << other;
  for (const auto* text : {"<|known|>", "[INST] ", "<a b>", "<>", "1 < 2", "<", "<\n>", "a > b"})
    EXPECT_EQ(refusal(text), "") << text;
  EXPECT_EQ(refusal("<|im_start|>user<|im_start|>", {"<|im_start|>"}), "");
  EXPECT_EQ(refusal("<<SYS>>\n", {"<<SYS>>"}), "");
  EXPECT_THAT(refusal("<x><y>", {"<x>"}), HasSubstr("writes <y>"));
  EXPECT_EQ(write_chat(with_tokens_of(t, ToyTokenizer({"<x>", "<y>"})), short_talk).special.size(),
            2U)
      << "where it is a token it is one";

  EXPECT_EQ(refusal(""), "");
  for (auto* text : {&t.begin, &t.end, &t.before_last, &t.turns["assistant"].after}) {
    const auto good = std::exchange(*text, "<x>");
    EXPECT_THAT(message_of<Error>([&] { with_tokens_of(t, ToyTokenizer({})); }), HasSubstr("<x>"));
    *text = good;
  }
  // Zephyr's own tokenizer has no tokens for its turns.
  EXPECT_NO_THROW(with_tokens_of(chat_template_named("zephyr"), ToyTokenizer({"<s>", "</s>"})));
}

// A Jinja text that half of all models have.
const std::string jinja =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";

TEST(ChatTemplates, ATokenizersOwnIsKnownByItsText) {
  const auto own = [](const std::string& file, const std::string& text) {
    return chat_template_of(ToyTokenizer({}, {{file, text}})).name;
  };
  const auto config = [](const nlohmann::json& t) {
    return nlohmann::json{{"chat_template", t}}.dump();
  };
  EXPECT_EQ(own("chat_template.jinja", jinja + "\n"), "chatml");
  EXPECT_EQ(own("tokenizer_config.json", config(jinja)), "chatml");
  EXPECT_EQ(own("tokenizer_config.json", config({{{"name", "tool_use"}, {"template", "?"}},
                                                 {{"name", "default"}, {"template", jinja}}})),
            "chatml");
  std::string escaped;
  for (const char c : jinja) escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  EXPECT_EQ(own("chat_template.jinja", escaped), "chatml");
  for (const auto& name : chat_template_names())  // as `export` writes it
    EXPECT_EQ(own("chat_template.jinja", jinja_text(chat_template_named(name))), name);

  // Of a file's template all goes along.
  auto mine = chat_template_named("qwen2.5");
  mine.default_system = "Be 'brief'.\n{{ }} {% \xc3\xa4";
  mine.turns["critic"] = {"{bos}C: ", "\t"};
  mine.begin = "\\n";
  const auto exported = exported_jinja(mine);
  auto again = chat_template_of(ToyTokenizer({}, {{"chat_template.jinja", exported + "\n"}}));
  again.name = mine.name;
  EXPECT_EQ(again, mine);
  EXPECT_EQ(exported_jinja(chat_template_named("chatml")),
            jinja_text(chat_template_named("chatml")));
  mine.default_system = "#}";  // would end the comment
  EXPECT_EQ(exported_jinja(mine), jinja_text(mine));

  const auto refusal = [&](const std::string& text) {
    return message_of<Error>([&] { own("chat_template.jinja", text); });
  };
  EXPECT_THAT(refusal(exported + "{{ 'more' }}"), HasSubstr("is unknown; it looks like"));
  EXPECT_THAT(refusal(jinja + "{{ 'more' }}"),
              AllOf(HasSubstr("is unknown; it looks like chatml"), HasSubstr("--template")));
  for (const auto* name : {"llama3", "llama3.1", "mistral", "mistral-v3"})
    EXPECT_EQ(similar_jinja(jinja_text(chat_template_named(name)) + "more"), name);
  EXPECT_THAT(refusal("{{ messages }}"), AllOf(HasSubstr("is unknown:"), HasSubstr("qwen3")));
  EXPECT_THAT(message_of<Error>([] { chat_template_of(*bytes_tokenizer()); }),
              HasSubstr("the tokenizer has no chat template"));
}

TEST(ChatTemplates, JinjaKeepsEveryText) {
  ChatTemplate t;
  t.begin = "{bos}'\\\n\t{{ %}\u00e4{eos}{bos}";
  t.turns = {{"user", {"", ""}}, {"assistant", {"", "."}}};
  const auto text = jinja_text(t);
  EXPECT_THAT(
      text,
      HasSubstr("{{- bos_token + '\\'\\\\\\n\\x09{{ %}\u00e4' + eos_token + bos_token -}}\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "{%- if message['role'] == 'assistant' -%}\n{{- '' -}}\n{{- content -}}\n{{- '.' -}}\n"
          "{%- elif message['role'] == 'user' -%}\n"));
}

}  // namespace
}  // namespace trireme
