// Conversations, from JSON.
#include "lib/chat/conversation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Conversation read(const std::string& text) {
  return conversation_of(parse_ordered_json(text));
}

TEST(Conversations, SayWhichAnswersAreLearnt) {
  const auto learnt_of = [](const std::string& more, const char* role = "assistant") {
    const auto text = fmt::format(
        R"({{"messages": [{{"role": "user", "content": "a"}}, {{"role": "{}", "content": "b"{}}}]}})",
        role, more);
    return read(text).messages.at(1).learnt;
  };
  for (const char* by_role : {"", R"(, "weight": 1)", R"(, "weight": null)", R"(, "train": null)"})
    EXPECT_EQ(learnt_of(by_role), std::nullopt) << by_role;
  for (const char* no : {R"(, "weight": 0)", R"(, "weight": 0.0)", R"(, "train": false)",
                         R"(, "train": true, "weight": 0)"})
    EXPECT_EQ(learnt_of(no), false) << no;
  for (const char* role : {"user", "assistant"})
    EXPECT_EQ(learnt_of(R"(, "train": true)", role), true) << role;
  const auto refusal = [&](const char* more, const char* role) {
    return message_of<Error>([&] { learnt_of(more, role); });
  };
  for (const char* wrong : {R"(, "weight": 0.5)", R"(, "weight": "0")", R"(, "weight": true)"})
    EXPECT_THAT(refusal(wrong, "assistant"), HasSubstr("message 2 has a \"weight\"")) << wrong;
  EXPECT_THAT(refusal(R"(, "train": 1)", "assistant"), HasSubstr("neither true nor false"));
}

TEST(Conversations, AreReadFromBothForms) {
  EXPECT_THAT(read(R"({"messages": [{"role": "user", "content": "a"},
                       {"role": "assistant", "content": [{"type": "text", "text": "b"},
                        {"type": "text", "text": "c"}], "tool_calls": null}]})")
                  .messages,
              ElementsAre(Message{"user", "a"}, Message{"assistant", "bc"}));
  EXPECT_THAT(read(R"({"conversations": [{"from": "human", "value": "a"},
                       {"from": "gpt", "value": "b"}, {"from": "system", "value": "c"}]})")
                  .messages,
              ElementsAre(Message{"user", "a"}, Message{"assistant", "b"}, Message{"system", "c"}));
  const auto refusal = [&](const char* text) { return message_of<Error>([&] { read(text); }); };
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"text": "a"})"), HasSubstr("no list \"messages\""));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user"}]})"),
              HasSubstr("message 1 has no text in \"content\""));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": "a"}, 7]})"),
              HasSubstr("message 2"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"),
              HasSubstr("only text is supported"));
  EXPECT_THAT(
      refusal(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]})"),
      HasSubstr("message 1: call 1 of its \"tool_calls\" is not"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "assistant", "content": null}]})"),
              HasSubstr("no text in \"content\""));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f",
                          "arguments": "{"}]}]})"),
              HasSubstr("has a text of arguments that is not JSON"));
  EXPECT_THAT(refusal(R"({"messages": [], "tools": ["f"]})"), HasSubstr("element 1 of \"tools\""));
  EXPECT_THAT(refusal(R"({"messages": [], "tools": "f"})"), HasSubstr("a text that is not JSON"));
  EXPECT_THAT(refusal(R"({"messages": [], "tools": 7})"), HasSubstr("not a list"));
}

// TRL's and Stanford Alpaca's forms; with a history, as LLaMA-Factory reads it.
TEST(Conversations, AreReadFromPromptsAndInstructions) {
  const auto roles_of = [](const char* text) {
    std::string all;
    for (const auto& m : read(text).messages)
      all += fmt::format("{}{}:{};", m.learnt == false ? "-" : "", m.role[0], m.content());
    return all;
  };
  EXPECT_EQ(roles_of(R"({"prompt": "a", "completion": "b"})"), "-u:a;a:b;");
  EXPECT_EQ(roles_of(R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant",
                         "content": "b"}, {"role": "user", "content": "c"}],
                         "completion": [{"role": "assistant", "content": "d"}], "system": "s"})"),
            "s:s;-u:a;-a:b;-u:c;a:d;");
  EXPECT_EQ(roles_of(R"({"instruction": "a", "input": "", "output": "b"})"), "u:a;a:b;");
  EXPECT_EQ(roles_of(R"({"instruction": "a", "input": "x", "output": "b", "system": "s",
                         "history": [["q", "r"]]})"),
            "s:s;u:q;a:r;u:a\nx;a:b;");
  const auto refusal = [&](const char* text) { return message_of<Error>([&] { read(text); }); };
  EXPECT_THAT(refusal(R"({"prompt": "", "completion": "b"})"), HasSubstr("no \"prompt\""));
  EXPECT_THAT(refusal(R"({"prompt": "a", "chosen": "b"})"), HasSubstr("--preference"));
  EXPECT_THAT(refusal(R"({"text": "a"})"), HasSubstr("leave out --chat"));
  EXPECT_THAT(refusal(R"({"instruction": ["a"], "output": "b"})"), HasSubstr("is not a text"));
  EXPECT_THAT(refusal(R"({"instruction": "a", "output": "b", "history": ["c"]})"),
              HasSubstr("pairs of texts"));
}

// What templates see of messages: all keys but those that say what is learnt, in their order.
TEST(Conversations, KeepWhatTemplatesMayRead) {
  const auto c =
      read(R"({"messages": [{"content": "b", "role": "assistant", "reasoning_content": "t",
    "weight": 1, "none": null, "tool_calls": [{"id": "x", "type": "function", "index": 0,
    "function": {"name": "f", "arguments": {"z": 1e5, "a": [2]}}}, {"name": "g", "arguments": "{}"}]},
    {"role": "tool", "tool_call_id": "x", "content": "c", "name": "f"}],
    "tools": [{"type":"function", "function": {"name": "f"}}],
    "chat_template_kwargs": {"enable_thinking": false}})");
  EXPECT_EQ(
      c.messages.at(0).fields.dump(),
      R"({"role":"assistant","content":"b","reasoning_content":"t","tool_calls":[)"
      R"({"id":"x","type":"function","function":{"name":"f","arguments":{"z":100000.0,"a":[2]}}},)"
      R"({"type":"function","function":{"name":"g","arguments":{}}}]})");
  EXPECT_EQ(c.messages.at(1).fields.dump(),
            R"({"role":"tool","content":"c","tool_call_id":"x","name":"f"})");
  EXPECT_EQ(c.variables.dump(), R"({"enable_thinking":false})");
  const auto refusal = [&](const char* text) { return message_of<Error>([&] { read(text); }); };
  EXPECT_THAT(refusal(R"({"messages": [], "chat_template_kwargs": [1]})"),
              HasSubstr("\"chat_template_kwargs\" is not a JSON object"));
  EXPECT_THAT(refusal(R"({"messages": [], "chat_template_kwargs": {"messages": []}})"),
              HasSubstr("which the conversation sets"));
  // A number that would change is refused.
  EXPECT_THAT(refusal(R"({"tools": [{"most": 123456789012345678901234567890}]})"),
              HasSubstr("does not fit into 64 bits"));
}

// LLaMA-Factory's form: contents and tools are JSON texts.
TEST(Conversations, HaveCallsInTexts) {
  const auto line = [](std::string_view call, std::string_view tools) {
    return fmt::format(
        R"({{"conversations": [{{"from": "human", "value": "a"}},
            {{"from": "function_call", "value": {}}}, {{"from": "observation", "value": "r"}},
            {{"from": "gpt", "value": "b"}}], "tools": {}}})",
        Json(call).dump(), Json(tools).dump());
  };
  const auto one = R"({"name": "f", "arguments": {"z":1,"a":[2.0]}})";
  const auto all = read(line(one, R"([{"name":"f","b":1}, {"name":"g"}])"));
  EXPECT_EQ(all.tools.dump(), R"([{"name":"f","b":1},{"name":"g"}])");
  EXPECT_EQ(all.messages.at(1).role, "assistant");
  EXPECT_EQ(all.messages.at(1).content(), "");
  EXPECT_EQ(all.messages.at(1).fields.at("tool_calls").dump(),
            R"([{"type":"function","function":{"name":"f","arguments":{"z":1,"a":[2.0]}}}])");
  EXPECT_EQ(all.messages.at(2), Message("tool", "r"));
  const auto calls_of = [&](std::string_view call) {
    return read(line(call, "")).messages.at(1).fields.at("tool_calls");
  };
  EXPECT_EQ(calls_of(fmt::format("[{}, {}]", one, one)).size(), 2U);
  EXPECT_EQ(calls_of(R"({"name": "f", "arguments": "{\"a\":1}"})")[0]["function"]["arguments"]["a"],
            1);
  const auto refusal = [&](std::string_view call, std::string_view tools) {
    return message_of<Error>([&] { read(line(call, tools)); });
  };
  EXPECT_THAT(refusal("f(1)", ""),
              HasSubstr("message 2 has the role function_call, and a content that is not JSON"));
  EXPECT_THAT(refusal(R"({"name": "f"})", ""),
              HasSubstr("message 2: call 1 of its content is not {\"name\""));
  EXPECT_THAT(refusal(one, "x"), HasSubstr("\"tools\" is a text that is not JSON"));
  EXPECT_THAT(refusal(one, "{}"), HasSubstr("not a list"));
  EXPECT_THAT(refusal(one, "[1]"), HasSubstr("element 1 of \"tools\""));
}

}  // namespace
}  // namespace trireme
