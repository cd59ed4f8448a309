// Chat templates: where they come from, and what is stored of them.
#include "lib/chat/chat_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "tests/chat/toy_tokenizer.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* config_file = "tokenizer_config.json";

TEST(ChatTemplates, OfATokenizerAreInItsFiles) {
  const auto own = [](const char* file, const std::string& text) -> std::string {
    const auto t = own_chat_template(ToyTokenizer({}, {{file, text}}));
    return t ? t->jinja : "none";
  };
  EXPECT_EQ(own("chat_template.jinja", "{{ 1 }}\n"), "{{ 1 }}\n");
  EXPECT_EQ(own(config_file, R"({"chat_template": "{{ 2 }}"})"), "{{ 2 }}");
  EXPECT_EQ(own(config_file, "{}"), "none");
  EXPECT_EQ(own(config_file, R"({"chat_template": [{"name": "other", "template": "{{ 1 }}"},
                                {"name": "default", "template": "{{ 2 }}"}]})"),
            "{{ 2 }}");
  EXPECT_EQ(own_chat_template(*bytes_tokenizer()), std::nullopt);
  // As in Command R, and as transformers chooses.
  const ToyTokenizer both(
      {}, {{config_file, R"({"chat_template": [{"name": "default", "template": "plain\n"},
                            {"name": "tool_use", "template": "{{ tools | length }} tools\n"}]})"}});
  const ChatWriter writer(own_chat_template(both).value(), both);
  auto talk = short_talk;
  EXPECT_EQ(writer.write(talk).text, "plain");
  talk.tools = OrderedJson::array({{{"name", "f"}}});
  EXPECT_EQ(writer.write(talk).text, "1 tools");
}

TEST(ChatTemplates, NameTheTokensOfTheTokenizer) {
  const ToyTokenizer objects(
      {"<B>", "<E>"}, {{config_file, R"({"bos_token": {"content": "<B>"}, "eos_token": "<E>"})"}});
  EXPECT_EQ(ChatWriter(chat_template_named("mistral"), objects).write(short_talk).text,
            "<B>[INST] Hi [/INST]Yo<E>");
  EXPECT_EQ(token_variables(ToyTokenizer({"<s>"})).dump(), R"({"bos_token":"<s>"})");
  // What the tokenizer's files do not name is not guessed.
  const ToyTokenizer nameless({"<s>", "</s>"}, {{config_file, "{}"}});
  EXPECT_THAT(message_of<Error>(
                  [&] { ChatWriter(chat_template_named("mistral"), nameless).write(short_talk); }),
              HasSubstr("'eos_token' is undefined"));
  EXPECT_THAT(missing_tokens({"t", "<|a|> <|b|>x<|b|> <| c|> <d>"}, ToyTokenizer({"<|a|>"})),
              ElementsAre("<|b|>"));
  EXPECT_THAT(
      ChatWriter({"t", "{{ bos_token }}<|a|>"}, ToyTokenizer({"<s>", "</s>", "<|a|>"})).tokens(),
      ElementsAre("<s>", "<|a|>"));
}

TEST(ChatTemplates, AreKnownByNameOrRead) {
  EXPECT_THAT(message_of<Error>([] { chat_template_named("none"); }),
              AllOf(HasSubstr("\"none\""), HasSubstr("chatml, qwen2")));
  EXPECT_THAT(message_of<Error>([] { chat_template_named("chatm"); }),
              HasSubstr("did you mean chatml?"));
  const ScratchFolder scratch;
  EXPECT_EQ(read_chat_template(scratch.write("t.jinja", "{{ 1 }}")).jinja, "{{ 1 }}");
  EXPECT_THAT(message_of<Error>(
                  [&] { read_chat_template(scratch.write("t.toml", "[user]\nbefore = \"\"")); }),
              AllOf(HasSubstr("t.toml is not a Jinja program"), HasSubstr("Trireme 0.1")));
  EXPECT_THAT(message_of<Error>([&] { read_chat_template(scratch.write("bad", "\xff{{ 1 }}")); }),
              HasSubstr("not UTF-8"));
  EXPECT_THAT(message_of<Error>([&] {
                read_chat_template(scratch.write("long", "{{" + std::string(1 << 20, ' ')));
              }),
              HasSubstr("1 MiB"));
}

TEST(ChatTemplates, AreStoredWithTheEndOfAnAnswer) {
  const StoredChat chat{"{{ 1 }}\n", "</s>", {{"b", 1}, {"a", {true}}}};
  const auto back = stored_chat(chat_text_of(chat), "here").value();
  EXPECT_EQ(back.jinja, chat.jinja);
  EXPECT_EQ(back.end_of_answer, chat.end_of_answer);
  EXPECT_EQ(back.variables, (OrderedJson{{"a", {true}}, {"b", 1}}));
  EXPECT_EQ(stored_chat("# Trireme 0.1\n[user]\n", "here"), std::nullopt);
  EXPECT_THAT(message_of<Error>([] { stored_chat("{\"jinja\": 1}", "here"); }), HasSubstr("jinja"));
}

}  // namespace
}  // namespace trireme
