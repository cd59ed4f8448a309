// Tools in conversations: their calls, and what they give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/error.hpp"
#include "lib/chat/chat_text.hpp"
#include "tests/chat/toy_tokenizer.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string text_by(const char* name, const Conversation& c) {
  return write_chat(chat_named(name), c).text;
}
std::string question_by(const char* name, const Conversation& c) {
  return write_question(chat_named(name), c).text;
}
std::string refusal_by(const char* name, const Conversation& c) {
  return message_of<Error>([&] { text_by(name, c); });
}

TEST(Conversations, HaveCallsOfTools) {
  const char* text = R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "x", "type": "function", "function": {"name": "f", "arguments": {"z": 1e5,"a":[2]}}},
      {"name": "g", "arguments": "{\"b\":1}"}]},
    {"role": "tool", "tool_call_id": "x", "content": "c"}],
    "tools": [{"type":"function", "function": {"name": "f"}}]})";
  EXPECT_THAT(
      conversation_of(nlohmann::json::parse(text), text),
      ElementsAre(
          Message{"user", "a", {}, {R"({"type": "function", "function": {"name": "f"}})"}},
          Message{
              "assistant", "", {{"f", R"({"z": 100000.0, "a": [2]})", "x"}, {"g", R"({"b":1})"}}},
          Message{"tool", "c", {}, {}, "x"}));
}

// As Qwen's model cards show them.
// LLaMA-Factory's form: contents and tools are JSON texts, which are written as json.dumps does.
TEST(Conversations, HaveCallsInTexts) {
  const auto read = [](const std::string& text) {
    return conversation_of(nlohmann::json::parse(text), text);
  };
  const auto line = [](std::string_view call, std::string_view tools) {
    return fmt::format(
        R"({{"conversations": [{{"from": "human", "value": "a"}},
            {{"from": "function_call", "value": {}}}, {{"from": "observation", "value": "r"}},
            {{"from": "gpt", "value": "b"}}], "tools": {}}})",
        nlohmann::json(call).dump(), nlohmann::json(tools).dump());
  };
  const auto one = R"({"name": "f", "arguments": {"z":1,"a":[2.0]}})";
  const auto all = read(line(one, R"([{"name":"f","b":1}, {"name":"g"}])"));
  EXPECT_THAT(
      all, ElementsAre(Message{"user", "a", {}, {R"({"name": "f", "b": 1})", R"({"name": "g"})"}},
                       Message{"assistant", "", {{"f", R"({"z": 1, "a": [2.0]})"}}},
                       Message{"tool", "r"}, Message{"assistant", "b"}));
  EXPECT_EQ(read(line(fmt::format("[{}, {}]", one, one), "")).at(1).calls.size(), 2U);
  EXPECT_EQ(
      read(line(R"({"name": "f", "arguments": "{\"a\":1}"})", "")).at(1).calls.at(0).arguments,
      R"({"a":1})");
  const auto refusal = [&](std::string_view call, std::string_view tools) {
    return message_of<Error>([&] { read(line(call, tools)); });
  };
  EXPECT_THAT(refusal("f(1)", ""),
              HasSubstr("message 2 has the role function_call, but its content is not JSON"));
  EXPECT_THAT(refusal(R"({"name": "f"})", ""),
              HasSubstr("message 2: call 1 of its content is not {\"name\""));
  EXPECT_THAT(refusal(one, "x"), HasSubstr("\"tools\" is a text that is not JSON"));
  EXPECT_THAT(refusal(one, "{}"), HasSubstr("not of a list"));
  EXPECT_THAT(refusal(one, "[1]"), HasSubstr("element 1 of \"tools\""));
  EXPECT_EQ(read(R"({"messages": [{"role": "developer", "content": "d"}]})").at(0).role, "system");
}

TEST(ChatText, HasToolsAndTheirCalls) {
  const auto call = [](const char* name) { return ToolCall{name, R"({"a": 1})"}; };
  const Conversation talk{{"user", "q", {}, {R"({"name": "f"})"}},
                          {"assistant", "Wait.", {call("f"), call("g")}},
                          {"tool", "1"},
                          {"tool", "2"},
                          {"assistant", "", {call("h")}}};
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
  EXPECT_THAT(refusal_by("chatml", talk), HasSubstr("\"tools\", which the chat template chatml"));
  EXPECT_THAT(refusal_by("chatml", {{"user", "q"}, {"assistant", "", {call("f")}}}),
              HasSubstr("message 2 has \"tool_calls\""));
  EXPECT_THAT(refusal_by("qwen3", {{"user", "q", {call("f")}}, {"assistant", "a"}}),
              HasSubstr("only tool calls of the assistant"));
  // Without a question there is no thought.
  EXPECT_EQ(text_by("qwen3", {{"assistant", "\na"}}), "<|im_start|>assistant\n\na<|im_end|>\n");
}

// What is learnt, piece by piece.
std::vector<std::string> learnt_by(const char* name, const Conversation& c) {
  const auto chat = write_chat(chat_named(name), c);
  std::vector<std::string> all;
  for (const auto& [begin, end] : chat.targets) all.push_back(chat.text.substr(begin, end - begin));
  return all;
}

const std::string system_31 = "<s><|start_header_id|>system<|end_header_id|>\n\n",
                  dates_31 = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
                  user_31 = "<|start_header_id|>user<|end_header_id|>\n\n",
                  assistant_31 = "<|start_header_id|>assistant<|end_header_id|>\n\n";

// As the chat_template of Meta's Llama 3.1 8B Instruct writes it.
TEST(ChatText, OfLlama31HasToolsInTheFirstUsersTurn) {
  const std::vector<std::string> tools{
      R"({"name": "f", "of": {"a": [], "b": [1, "x, {y: \"z\"}"]}})", R"({"name": "g"})"};
  const Conversation talk{
      {"user", " q\n", {}, tools}, {"assistant", "\n", {{"f", R"({"a": 1})", "any id"}}},
      {"tool", " \"1\"\n"},        {"tool", ""},
      {"assistant", " Both. "},    {"user", "more"}};
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
  with_system.insert(with_system.begin(), {"system", " Be brief. ", {}, tools});
  with_system[1].tools.clear();
  EXPECT_EQ(text_by("llama3.1", with_system), begin + "Be brief.<|eot_id|>" + rest);

  EXPECT_EQ(text_by("llama3.1", short_talk), system_31 + dates_31 + "<|eot_id|>" + user_31 +
                                                 "Hi<|eot_id|>" + assistant_31 + "Yo<|eot_id|>");
  EXPECT_THAT(refusal_by("llama3.1", {{"user", "a"}, {"system", "b"}}),
              HasSubstr("message 2 is a system message"));
  EXPECT_THAT(
      refusal_by("llama3.1", {{"assistant", "a", {}, tools}, {"user", "b"}}),
      HasSubstr("message 1 has the role \"assistant\", but must have the role \"user\", because "
                "the chat template llama3.1 writes \"tools\" into it"));
  EXPECT_THAT(
      refusal_by("llama3.1", {{"user", "q"}, {"assistant", "", {{"f", "{}"}, {"g", "{}"}}}}),
      HasSubstr("message 2 has 2 \"tool_calls\", but the chat template llama3.1 writes only one"));
  EXPECT_THAT(refusal_by("llama3.1", {{"user", "q"}, {"assistant", "a", {{"f", "{}"}}}}),
              HasSubstr("message 2 has both \"tool_calls\" and content"));
}

// As the chat_template of Mistral 7B Instruct v0.3 writes it.
TEST(ChatText, OfMistralV3HasToolsBeforeTheLastUsersTurn) {
  const std::vector<std::string> tools{R"({"name": "f"})", R"({"name": "g"})"};
  const Conversation talk{
      {"user", " q ", {}, tools},
      {"assistant", " ", {{"f", R"({"a": 1})", "abcdefghi"}, {"g", "{}", "123456789"}}},
      {"tool", " 1", {}, {}, "abcdefghi"},
      {"tool", "[2]", {}, {}, "123456789"},
      {"assistant", " Both. "}};
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
  EXPECT_THAT(learnt_by("mistral-v3", talk), ElementsAre(calls, "Both.</s>"));
  const Conversation asked(talk.begin(), talk.begin() + 4);
  EXPECT_EQ(question_by("mistral-v3", asked), "<s>" + list + "[INST]  q [/INST]" + calls + results);

  // With a system's text, and more turns: both go to the last user, and calls count for nothing.
  auto more = talk;
  more[0].tools.clear();
  more.insert(more.begin(), {"system", "Be brief.", {}, tools});
  more.push_back({"user", " q "});
  EXPECT_EQ(question_by("mistral-v3", more),
            "<s>[INST]  q [/INST]" + rest + list + "[INST] Be brief.\n\n q [/INST]");
  EXPECT_EQ(text_by("mistral-v3", short_talk), "<s>[INST] Hi[/INST] Yo</s>");

  EXPECT_THAT(refusal_by("mistral-v3", {{"user", "a"}, {"user", "b"}}), HasSubstr("take turns"));
  EXPECT_THAT(
      refusal_by("mistral-v3",
                 {{"user", "a"}, {"assistant", "", talk[1].calls}, talk[2], {"user", "b"}}),
      HasSubstr("message 4 has the role \"user\", but in the chat template mistral-v3 user and"));
  EXPECT_THAT(refusal_by("mistral-v3", {{"user", "q"}, {"assistant", "", {{"f", "{}", "call_1"}}}}),
              HasSubstr("call 1 of message 2 has the \"id\" call_1 of 6 characters, but the chat "
                        "template mistral-v3 needs 9 characters"));
  EXPECT_THAT(refusal_by("mistral-v3", {{"user", "q"}, {"assistant", "", {{"f", "{}"}}}}),
              HasSubstr("call 1 of message 2 has no text in \"id\""));
  EXPECT_THAT(refusal_by("mistral-v3", {{"user", "q"}, {"tool", "1"}}),
              HasSubstr("message 2 has no text in \"tool_call_id\""));
  EXPECT_THAT(refusal_by("mistral-v3", {{"user", "q"}, {"assistant", "a", talk[1].calls}}),
              HasSubstr("message 2 has both \"tool_calls\" and content"));
  EXPECT_THAT(refusal_by("mistral-v3", {{"system", "q"}, {"tool", "1", {}, {}, "abcdefghi"}}),
              HasSubstr("no user message"));
}

}  // namespace
}  // namespace trireme
