#include "lib/chat/chat_template_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/chat/chat_text.hpp"
#include "tests/chat/toy_tokenizer.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Each of these took minutes where time grows with the square of the text.
TEST(ChatTemplateFile, LongTextsTakeLinearTime) {
  const auto n = longest_chat_template - 100;
  const ToyTokenizer tokenizer({"</s>"}, {{"tokenizer_config.json", R"({"bos_token": "</s>"})"}});
  std::string marks;
  while (marks.size() < n) marks += "{bos}";
  for (const auto& text : {std::string(n, 'a'), std::string(n, '<'), marks.substr(0, n)}) {
    const auto t = parse_chat_template(
        "[user]\n[assistant]\nafter = \"</s>\"\nbefore = \"" + text + "\"", "t.toml");
    const auto full = with_tokens_of(t, tokenizer);
    const auto chat = write_chat(full, {{"user", "a"}, {"assistant", "b"}});
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> targets;
    encode_chat(tokenizer, chat, ids, targets);
    EXPECT_EQ(std::ranges::count(targets, std::uint8_t{1}), 2);
  }
}

TEST(ChatTemplateFile, IsBounded) {
  const auto refusal = [](const std::string& text) {
    return message_of<Error>([&] { parse_chat_template(text, "t.toml"); });
  };
  EXPECT_THAT(refusal("begin = \"" + std::string(longest_chat_template, 'a') + "\""),
              AllOf(HasSubstr("t.toml has 262154 bytes"), HasSubstr("at most 262144")));
  std::string names;
  for (std::size_t i = 0; i <= most_chat_tokens; ++i) names += "\"a\",";
  EXPECT_THAT(refusal("special = [" + names + "]\n[user]\n[assistant]\nafter = \".\""),
              HasSubstr("name 1025 texts"));
}

// Places in one long run of plain text are found without looking at all of it for each.
TEST(ChatTemplateFile, ManyTurnsTakeLinearTime) {
  const auto tokenizer = bytes_tokenizer();
  const auto t = parse_chat_template("[user]\n[assistant]\nafter = \".\"", "t.toml");
  Conversation c;
  for (int i = 0; i < 10'000; ++i) {
    c.push_back({"user", "a"});
    c.push_back({"assistant", "0123456789"});
  }
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;
  encode_chat(*tokenizer, write_chat(with_tokens_of(t, *tokenizer), c), ids, targets);
  EXPECT_EQ(std::ranges::count(targets, std::uint8_t{1}), 110'000);
}

TEST(ChatTemplateFile, IsReadAsItStands) {
  const ScratchFolder scratch;
  const auto t = read_chat_template(scratch.write("t.toml", R"(
begin = "<s>"
end = "."
special = ["<s>", "</s>"]
plain = ["<|x|>"]
default_system = "Be kind."
trim = true
alternating = true
refused = "</t>"

[system]
before = "S: "
after = "\n"
in_first_user = true
tools_in = "before_last_user"
tools_before = "T"
tool = "{tool}"
tools_between = "/"
tools_indent = 2
tools_after = "t"
trim = true

[tool]
group_before = "["
group_after = "]"
as_json_string = true

[user]
before = "Q: "

[assistant]
after = "</s>"
before_last = "-"
message_has = "content_or_one_call"
before_calls = "C"
call = "{name}{arguments}"
between_calls = "+"
after_calls = "c"
call_id_length = 3
)"));
  EXPECT_EQ(t.begin, "<s>");
  EXPECT_EQ(t.end, ".");
  EXPECT_THAT(t.special, ElementsAre("<s>", "</s>"));
  EXPECT_THAT(t.plain, ElementsAre("<|x|>"));
  EXPECT_EQ(t.default_system, "Be kind.");
  EXPECT_TRUE(t.trimmed);
  EXPECT_TRUE(t.alternating);
  EXPECT_EQ(t.refused, "</t>");
  EXPECT_EQ(t.before_last, "-");
  EXPECT_EQ(t.system, SystemPlace::first_user);
  EXPECT_EQ(t.turns.size(), 4U);
  EXPECT_EQ(t.turns.at("tool"), (ChatTemplate::Turn{"", "", "[", "]", false, true}));
  EXPECT_EQ(t.calls, (ChatTemplate::Calls{"{name}{arguments}", "+", "C", "c",
                                          MessageHas::content_or_one_call, 3}));
  EXPECT_EQ(t.tools, (ChatTemplate::Tools{"T", "{tool}", "t", "", "/", 2,
                                          ToolsPlace::before_last_user, ""}));
  EXPECT_EQ(t.turns.at("system"), (ChatTemplate::Turn{"S: ", "\n", "", "", true}));
  EXPECT_EQ(t.turns.at("user"), (ChatTemplate::Turn{"Q: ", ""}));
  EXPECT_EQ(t.turns.at("assistant"), (ChatTemplate::Turn{"", "</s>"}));
}

TEST(ChatTemplateFile, MistakesAreNamedWithTheirPlace) {
  const ScratchFolder scratch;
  const std::string turns = "[user]\n[assistant]\nafter = \"\\n\"\n";
  const auto refusal = [&](const std::string& text) {
    return message_of<Error>([&] { read_chat_template(scratch.write("t.toml", text)); });
  };
  EXPECT_EQ(refusal(turns), "");
  EXPECT_THAT(refusal("begin = 1\n" + turns), HasSubstr("t.toml:1:9: begin takes a text, not"));
  EXPECT_THAT(refusal("special = [\"\"]\n" + turns), HasSubstr("t.toml:1:"));
  EXPECT_THAT(refusal("plain = [\"\"]\n" + turns), HasSubstr("t.toml:1:"));
  EXPECT_THAT(refusal("first = \"\"\n" + turns),
              HasSubstr("there is no key 'first' in a chat template; keys: begin"));
  EXPECT_THAT(refusal(turns + "behind = \"\"\n"),
              HasSubstr("t.toml:4:1: there is no key 'behind' in [assistant]"));
  EXPECT_THAT(
      refusal(turns + "in_first_user = true\n"),
      HasSubstr("no key 'in_first_user' in [assistant]; keys: before, after, group_before"));
  EXPECT_THAT(refusal("[user]\n"), HasSubstr("[assistant]"));
  EXPECT_THAT(refusal("[user]\n[assistant]\n"), HasSubstr("where a turn ends"));
  EXPECT_THAT(refusal("default_system = \"x\"\n" + turns), HasSubstr("[system]"));
  EXPECT_THAT(refusal("[user"), HasSubstr("t.toml:1:"));
  EXPECT_THAT(refusal(turns + "call = \"{name}\"\n"),
              HasSubstr("\"call\" must contain {arguments}"));
  EXPECT_THAT(refusal(turns + "[system]\ntool = \"x\"\n"),
              HasSubstr("\"tool\" must contain {tool}"));
  EXPECT_THAT(refusal(turns + "[system]\ntool = \"{tool}\"\nin_first_user = true\n"),
              HasSubstr("\"tool\" cannot be combined with \"in_first_user\""));
  EXPECT_THAT(refusal(turns + "[system]\nalways = true\nin_last_user = true\n"),
              HasSubstr("\"always\" cannot be combined with"));
  EXPECT_THAT(refusal(turns + "[system]\nbefore_with_tools = \"x\"\nin_last_user = true\n"),
              HasSubstr("\"before_with_tools\" cannot be combined with"));
  EXPECT_THAT(refusal(turns + "[system]\nin_first_user = true\nin_last_user = true\n"),
              HasSubstr("t.toml:6:16: in_first_user and in_last_user cannot both be true"));
  EXPECT_EQ(refusal(turns + "[system]\nin_first_user = false\nin_last_user = true\n"), "");
  EXPECT_THAT(refusal(turns + "[system]\ntools_in = \"user\"\n"),
              HasSubstr("it can be \"system\", \"first_user\" or \"before_last_user\""));
  EXPECT_THAT(refusal(turns + "as_json_string = true\n"),
              HasSubstr("no key 'as_json_string' in [assistant]"));
  EXPECT_THAT(message_of<Error>([&] { read_chat_template(scratch / "no.toml"); }),
              HasSubstr("cannot read"));
}

// A conversation's ids and masks, one after the other.
std::vector<std::int32_t> written(const ChatTemplate& t, const Conversation& c) {
  const ToyTokenizer tokenizer(chat_tokens);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> targets;
  encode_chat(tokenizer, write_chat(with_tokens_of(t, tokenizer), c), ids, targets);
  ids.insert(ids.end(), targets.begin(), targets.end());
  return ids;
}

TEST(ChatTemplateFile, EachNamedOneComesBackFromItsFile) {
  const Conversation talk{
      {"user", " a\n"}, {"assistant", "\nb "}, {"user", "c"}, {"assistant", "\nd"}};
  for (const auto& name : chat_template_names()) {
    const auto named = chat_template_named(name);
    const auto text = chat_template_text(named);
    auto back = parse_chat_template(text, "a file");
    EXPECT_EQ(back.name, "a file");
    EXPECT_EQ(written(back, talk), written(named, talk)) << text;
    back.name = name;
    EXPECT_EQ(back, named) << text;
    EXPECT_EQ(chat_template_text(back), text);
  }
}

TEST(ChatTemplateFile, AnyTextComesBack) {
  ChatTemplate t;
  t.name = "f";
  t.begin = "${HOME} $${x}\t\r\n\"\\\x7f\u00e4";
  t.special = {"${x}"};
  t.turns = {
      {"user", {}}, {"assistant", {"", "\n"}}, {"a tool", {"\"", ""}}, {"tool-2", {"#", "]"}}};
  EXPECT_EQ(parse_chat_template(chat_template_text(t), "f"), t) << chat_template_text(t);
}

}  // namespace
}  // namespace trireme
