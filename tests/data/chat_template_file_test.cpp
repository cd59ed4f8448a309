#include "lib/data/chat_template_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ChatTemplateFile, IsReadAsItStands) {
  const ScratchFolder scratch;
  const auto t = read_chat_template(scratch.write("t.toml", R"(
begin = "<s>"
end = "."
special = ["<s>", "</s>"]
default_system = "Be kind."
trim = true

[system]
before = "S: "
after = "\n"
in_first_user = true

[user]
before = "Q: "

[assistant]
after = "</s>"
)"));
  EXPECT_EQ(t.begin, "<s>");
  EXPECT_EQ(t.end, ".");
  EXPECT_THAT(t.special, ElementsAre("<s>", "</s>"));
  EXPECT_EQ(t.default_system, "Be kind.");
  EXPECT_TRUE(t.trimmed);
  EXPECT_EQ(t.system, ChatTemplate::SystemPlace::first_user_turn);
  EXPECT_EQ(t.turns.size(), 3U);
  EXPECT_EQ(t.turns.at("system"), (ChatTemplate::Turn{"S: ", "\n"}));
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
  EXPECT_THAT(refusal("first = \"\"\n" + turns),
              HasSubstr("there is no key 'first' in a chat template; keys: begin"));
  EXPECT_THAT(refusal(turns + "behind = \"\"\n"),
              HasSubstr("t.toml:4:1: there is no key 'behind' in [assistant]"));
  EXPECT_THAT(refusal(turns + "in_first_user = true\n"),
              HasSubstr("no key 'in_first_user' in [assistant]; keys: before, after"));
  EXPECT_THAT(refusal("[user]\n"), HasSubstr("[assistant]"));
  EXPECT_THAT(refusal("[user]\n[assistant]\n"), HasSubstr("no end of a turn"));
  EXPECT_THAT(refusal("default_system = \"x\"\n" + turns), HasSubstr("[system]"));
  EXPECT_THAT(refusal("[user"), HasSubstr("t.toml:1:"));
  EXPECT_THAT(message_of<Error>([&] { read_chat_template(scratch / "no.toml"); }),
              HasSubstr("cannot read"));
}

}  // namespace
}  // namespace trireme
