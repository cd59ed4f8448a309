#include "lib/chat/chat_named.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace trireme {

namespace {

using Roles = std::vector<const char*>;
using Turns = decltype(ChatTemplate::turns);

// Returns turns that differ only in the name of the role, which replaces "{}".
Turns turns_of(const Roles& roles, std::string_view before, std::string_view after) {
  Turns turns;
  for (const auto* role : roles)
    turns[role] = {fmt::format(fmt::runtime(before), role), std::string(after)};
  return turns;
}

// Returns OpenAI's ChatML format, or a format that differs from it only in roles and system text.
ChatTemplate chatml(const char* name, const Roles& roles, const char* default_system = "") {
  return {.name = name,
          .turns = turns_of(roles, "<|im_start|>{}\n", "<|im_end|>\n"),
          .special = {"<|im_start|>", "<|im_end|>"},
          .default_system = default_system};
}

// Adds Qwen's tools. Calls are JSON objects, and the result of a tool is a user's turn.
void add_tools(ChatTemplate& t) {
  t.turns["tool"] = {"\n<tool_response>\n", "\n</tool_response>", "<|im_start|>user",
                     "<|im_end|>\n"};
  t.calls = {"<tool_call>\n{\"name\": \"{name}\", \"arguments\": {arguments}}\n</tool_call>", "\n"};
  t.tools = {
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
      "provided with function signatures within <tools></tools> XML tags:\n<tools>",
      "\n{tool}",
      "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
      "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
      "\"arguments\": <args-json-object>}\n</tool_call>",
      "\n\n"};
  t.plain = {"<tool_call>",     "</tool_call>",     "<tools>",         "</tools>",
             "<tool_response>", "</tool_response>", "<function-name>", "<args-json-object>"};
}

ChatTemplate qwen25(const Roles& roles) {
  auto t = chatml("qwen2.5", roles,
                  "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  add_tools(t);
  return t;
}

// Returns Qwen3's format for answers without a thought, as with enable_thinking=False.
ChatTemplate qwen3(const Roles& roles) {
  auto t = chatml("qwen3", roles);
  t.before_last = "<think>\n\n</think>\n\n";
  t.special.insert(t.special.end(), {"<think>", "</think>"});
  t.refused = "</think>";
  add_tools(t);
  return t;
}

// Header of each turn in Llama 3.
constexpr std::string_view llama_header = "<|start_header_id|>{}<|end_header_id|>\n\n";

std::string header(const char* role) {
  return fmt::format(llama_header, role);
}

// Returns the format of Meta's Llama 3.1 and 3.3. The user's turn contains the tools, and the date
// is the default of Meta's template.
ChatTemplate llama31() {
  const std::string dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
  const auto* const end = "<|eot_id|>";
  return {.name = "llama3.1",
          .turns = {{"system", {header("system") + dates, end}},
                    {"user", {header("user"), end}},
                    {"assistant", {header("assistant"), end}},
                    {"tool", {.before = header("ipython"), .after = end, .json = true}}},
          .begin = "{bos}",
          .special = {"{bos}", "<|start_header_id|>", "<|end_header_id|>", end},
          .system_always = true,
          .trimmed = true,
          .calls = {.each = "{\"name\": \"{name}\", \"parameters\": {arguments}}",
                    .message = MessageHas::content_or_one_call},
          .tools = {.before = "Given the following functions, please respond with a JSON for a "
                              "function call with its proper arguments that best answers the given "
                              "prompt.\n\nRespond in the format {\"name\": function name, "
                              "\"parameters\": dictionary of argument name and its value}.Do not "
                              "use variables.\n\n",
                    .each = "{tool}\n\n",
                    .indent = 4,
                    .place = ToolsPlace::first_user,
                    .system_before = header("system") + "Environment: ipython\n" + dates}};
}

// Returns the format of Mistral's tokenizers of version 3 with SentencePiece. The space before an
// answer is part of the answer's first token.
ChatTemplate mistral_v3() {
  return {.name = "mistral-v3",
          .turns = {{"system", {"", "\n\n"}},
                    {"user", {"[INST] ", "[/INST]"}},
                    {"assistant", {.before = " ", .after = "{eos}", .trimmed = true}},
                    {"tool",
                     {"[TOOL_RESULTS] {\"content\": ", ", \"call_id\": \"{id}\"}[/TOOL_RESULTS]"}}},
          .begin = "{bos}",
          .special = {"{bos}", "{eos}", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]",
                      "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"},
          .system = SystemPlace::last_user,
          .alternating = true,
          .calls = {.each = "{\"name\": \"{name}\", \"arguments\": {arguments}, \"id\": \"{id}\"}",
                    .between = ", ",
                    .before = "[TOOL_CALLS] [",
                    .after = "]",
                    .message = MessageHas::content_or_calls,
                    .call_id_length = 9},
          .tools = {.before = "[AVAILABLE_TOOLS] [",
                    .each = "{tool}",
                    .after = "][/AVAILABLE_TOOLS]",
                    .between = ", ",
                    .place = ToolsPlace::before_last_user}};
}

}  // namespace

std::vector<ChatTemplate> named_chat_templates() {
  const Roles three{"system", "user", "assistant"}, four{"system", "user", "assistant", "tool"};
  return {
      chatml("chatml", four),
      chatml("qwen2", four, "You are a helpful assistant."),
      qwen25(three),
      qwen3(three),
      chatml("smollm2", four,
             "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
      // Each question begins with a begin-of-text token, because each answer ends with an
      // end-of-text token.
      {.name = "llama2",
       .turns = {{"user", {"{bos}[INST] ", " [/INST]"}},
                 {"assistant", {" ", " {eos}"}},
                 {"system", {"<<SYS>>\n", "\n<</SYS>>\n\n"}}},
       .special = {"{bos}", "{eos}"},
       .plain = {"<<SYS>>", "<</SYS>>"},
       .system = SystemPlace::first_user,
       .trimmed = true,
       .alternating = true},
      {.name = "llama3",
       .turns = turns_of(three, llama_header, "<|eot_id|>"),
       .begin = "{bos}",
       .special = {"{bos}", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
       .trimmed = true},
      llama31(),
      {.name = "mistral",
       .turns = {{"user", {"[INST] ", " [/INST]"}}, {"assistant", {"", "{eos}"}}},
       .begin = "{bos}",
       .special = {"{bos}", "{eos}"},
       .alternating = true},
      mistral_v3(),
      {.name = "zephyr",
       .turns = turns_of(three, "<|{}|>\n", "{eos}\n"),
       .special = {"{eos}"},
       .plain = {"<|system|>", "<|user|>", "<|assistant|>"}},
      {.name = "gemma",
       .turns = {{"user", {"<start_of_turn>user\n", "<end_of_turn>\n"}},
                 {"assistant", {"<start_of_turn>model\n", "<end_of_turn>\n"}}},
       .begin = "{bos}",
       .special = {"{bos}", "<start_of_turn>", "<end_of_turn>"},
       .trimmed = true,
       .alternating = true},
  };
}

}  // namespace trireme
