// Tools in conversations: their calls, and what they give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "tests/chat/toy_tokenizer.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string text_by(const char* name, const Conversation& c) {
  return chat_named(name).write(c).text;
}
std::string question_by(const char* name, const Conversation& c) {
  return chat_named(name).question(c).text;
}
std::string refusal_by(const char* name, const Conversation& c) {
  return message_of<Error>([&] { text_by(name, c); });
}

Message called(const std::string& content, const std::vector<OrderedJson>& functions,
               const std::vector<std::string>& ids = {}) {
  Message m("assistant", content);
  for (std::size_t i = 0; i < functions.size(); ++i) {
    auto call = OrderedJson::object();
    if (i < ids.size()) call["id"] = ids[i];
    call["type"] = "function";
    call["function"] = functions[i];
    m.fields["tool_calls"].push_back(call);
  }
  return m;
}
OrderedJson function(const char* name, OrderedJson arguments = {{"a", 1}}) {
  return {{"name", name}, {"arguments", std::move(arguments)}};
}
Message answer_of(const std::string& id, const std::string& content) {
  Message m("tool", content);
  m.fields["tool_call_id"] = id;
  return m;
}
Conversation with_tools(std::vector<Message> messages, const char* tools) {
  auto c = talk_of(std::move(messages));
  c.tools = parse_ordered_json(tools);
  return c;
}

// As Qwen's model cards show them.
TEST(ChatWriter, HasToolsAndTheirCalls) {
  const auto talk = with_tools({{"user", "q"},
                                called("Wait.", {function("f"), function("g")}),
                                {"tool", "1"},
                                {"tool", "2"},
                                called("", {function("h")})},
                               R"([{"name": "f"}])");
  const std::string tools =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
      "provided with function signatures within <tools></tools> XML tags:\n<tools>\n{\"name\": "
      "\"f\"}\n</tools>\n\nFor each function call, return a json object with function name and "
      "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": "
      "<function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n"
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nWait.\n"
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>\n"
      "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n"
      "</tool_response><|im_end|>\n<|im_start|>assistant\n";
  const std::string last =
      "<tool_call>\n{\"name\": \"h\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>\n";
  EXPECT_EQ(text_by("qwen3", talk),
            "<|im_start|>system\n" + tools + "<think>\n\n</think>\n\n" + last);
  EXPECT_EQ(text_by("qwen2.5", talk),
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
            "assistant.\n\n" +
                tools + last);
  EXPECT_THAT(refusal_by("chatml", talk), HasSubstr("\"tools\", which the chat template does not"));
  EXPECT_THAT(refusal_by("chatml", talk_of({{"user", "q"}, called("", {function("f")})})),
              HasSubstr("message 2 has \"tool_calls\""));
  // A call ends with its turn, not with the token that ends the call.
  EXPECT_EQ(learnt_of(chat_named("qwen2.5").write(talk)).back() + "\n", last);
}

std::vector<std::string> learnt_by(const char* name, const Conversation& c) {
  return learnt_of(chat_named(name).write(c));
}

const std::string system_31 = "<s><|start_header_id|>system<|end_header_id|>\n\n",
                  dates_31 = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
                  user_31 = "<|start_header_id|>user<|end_header_id|>\n\n",
                  assistant_31 = "<|start_header_id|>assistant<|end_header_id|>\n\n";

// As the chat_template of Meta's Llama 3.1 8B Instruct writes it.
TEST(ChatWriter, OfLlama31HasToolsInTheFirstUsersTurn) {
  const char* const tools =
      R"([{"name": "f", "of": {"a": [], "b": [1, "x, {y: \"z\"}"]}}, {"name": "g"}])";
  const std::vector<Message> messages{
      {"user", " q\n"},         called("\n", {function("f")}, {"any id"}),
      {"tool", " \"1\"\n"},     {"tool", ""},
      {"assistant", " Both. "}, {"user", "more"}};
  const auto talk = with_tools(messages, tools);
  const std::string asked =
      "Given the following functions, please respond with a JSON for a function call with its "
      "proper arguments that best answers the given prompt.\n\nRespond in the format {\"name\": "
      "function name, \"parameters\": dictionary of argument name and its value}.Do not use "
      "variables.\n\n"
      "{\n    \"name\": \"f\",\n    \"of\": {\n        \"a\": [],\n        \"b\": [\n"
      "            1,\n            \"x, {y: \\\"z\\\"}\"\n        ]\n    }\n}\n\n"
      "{\n    \"name\": \"g\"\n}\n\nq<|eot_id|>";
  const auto rest = user_31 + asked + assistant_31 +
                    "{\"name\": \"f\", \"parameters\": {\"a\": 1}}<|eot_id|>"
                    "<|start_header_id|>ipython<|end_header_id|>\n\n\" \\\"1\\\"\\n\"<|eot_id|>"
                    "<|start_header_id|>ipython<|end_header_id|>\n\n\"\"<|eot_id|>" +
                    assistant_31 + "Both.<|eot_id|>" + user_31 + "more<|eot_id|>";
  const auto begin = system_31 + "Environment: ipython\n" + dates_31;
  EXPECT_EQ(text_by("llama3.1", talk), begin + "<|eot_id|>" + rest);
  EXPECT_EQ(question_by("llama3.1", talk), begin + "<|eot_id|>" + rest + assistant_31);
  EXPECT_THAT(
      learnt_by("llama3.1", talk),
      ElementsAre("{\"name\": \"f\", \"parameters\": {\"a\": 1}}<|eot_id|>", "Both.<|eot_id|>"));
  auto with_system = talk;
  with_system.messages.emplace(with_system.messages.begin(), "system", " Be brief. ");
  EXPECT_EQ(text_by("llama3.1", with_system), begin + "Be brief.<|eot_id|>" + rest);

  EXPECT_EQ(text_by("llama3.1", short_talk), system_31 + dates_31 + "<|eot_id|>" + user_31 +
                                                 "Hi<|eot_id|>" + assistant_31 + "Yo<|eot_id|>");
  EXPECT_THAT(refusal_by("llama3.1", with_tools({{"assistant", "a"}, {"user", "b"}}, tools)),
              HasSubstr("the first message must be the user's"));
  for (const auto& wrong :
       {called("", {function("f"), function("g")}), called("a", {function("f")})})
    EXPECT_THAT(refusal_by("llama3.1", talk_of({{"user", "q"}, wrong})),
                HasSubstr("either text or one call"));
}

// As the chat_template of Mistral 7B Instruct v0.3 writes it.
TEST(ChatWriter, OfMistralV3HasToolsBeforeTheLastUsersTurn) {
  const char* const tools = R"([{"name": "f"}, {"name": "g"}])";
  const auto calling = called(" ", {function("f"), function("g", OrderedJson::object())},
                              {"abcdefghi", "123456789"});
  const auto talk = with_tools({{"user", " q "},
                                calling,
                                answer_of("abcdefghi", " 1"),
                                answer_of("123456789", "[2]"),
                                {"assistant", " Both. "}},
                               tools);
  const std::string calls =
      "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}, "
      "{\"name\": \"g\", \"arguments\": {}, \"id\": \"123456789\"}]</s>";
  const std::string results =
      "[TOOL_RESULTS] {\"content\":  1, \"call_id\": \"abcdefghi\"}[/TOOL_RESULTS]"
      "[TOOL_RESULTS] {\"content\": [2], \"call_id\": \"123456789\"}[/TOOL_RESULTS]";
  const std::string list =
      "[AVAILABLE_TOOLS] [{\"name\": \"f\"}, {\"name\": \"g\"}]"
      "[/AVAILABLE_TOOLS]";
  const auto rest = calls + results + " Both.</s>";
  EXPECT_EQ(text_by("mistral-v3", talk), "<s>" + list + "[INST]  q [/INST]" + rest);
  EXPECT_THAT(learnt_by("mistral-v3", talk), ElementsAre(calls, " Both.</s>"));
  auto asked = talk;
  asked.messages.pop_back();
  EXPECT_EQ(question_by("mistral-v3", asked), "<s>" + list + "[INST]  q [/INST]" + calls + results);

  // With a system's text, and more turns: both go to the last user, and calls count for nothing.
  auto more = talk;
  more.messages.emplace(more.messages.begin(), "system", "Be brief.");
  more.messages.emplace_back("user", " q ");
  EXPECT_EQ(question_by("mistral-v3", more),
            "<s>[INST]  q [/INST]" + rest + list + "[INST] Be brief.\n\n q [/INST]");
  EXPECT_EQ(text_by("mistral-v3", short_talk), "<s>[INST] Hi[/INST] Yo</s>");

  const auto refusal = [](std::vector<Message> messages) {
    return refusal_by("mistral-v3", talk_of(std::move(messages)));
  };
  EXPECT_THAT(refusal({{"user", "a"}, {"user", "b"}}), HasSubstr("take turns"));
  EXPECT_THAT(refusal({{"user", "a"}, calling, answer_of("abcdefghi", "1"), {"user", "b"}}),
              HasSubstr("take turns"));
  EXPECT_THAT(refusal({{"user", "q"}, called("", {function("f")}, {"call_1"})}),
              HasSubstr("id of a call must have 9 characters"));
  EXPECT_THAT(refusal({{"user", "q"}, {"tool", "1"}}), HasSubstr("tool_call_id"));
  EXPECT_THAT(refusal({{"user", "q"}, called("a", {function("f")}, {"abcdefghi"})}),
              HasSubstr("either text or calls"));
}

}  // namespace
}  // namespace trireme
