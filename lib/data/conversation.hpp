#pragma once
// A conversation in a line of JSON.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
  std::string id{};       // empty: none
  bool operator==(const ToolCall&) const = default;
};
struct Message {
  std::string role, content;
  std::vector<ToolCall> calls{};     // behind the content
  std::vector<std::string> tools{};  // of the first one: those of the conversation, JSON each
  std::string call_id{};             // of the call that it answers; empty: none
  bool operator==(const Message&) const = default;
};
using Conversation = std::vector<Message>;

// {"messages": [{"role": .., "content": ..}, ..]}, or ShareGPT's {"conversations": [{"from": ..,
// "value": ..}, ..]}, in which human is user, gpt is assistant; a message may have either form. A
// content is a text, or a list of {"type": "text", "text": ..}, or null beside "tool_calls":
// [{"id": .., "function": {"name": .., "arguments": {..}}}, ..]; what a tool gives has the
// "tool_call_id". Beside the messages "tools" may be a list of
// objects, and "system" a text that comes before them. Their JSON is written as Python does;
// arguments that are a text are JSON already and stay as they are. `text` is the object's own.
// Throws Error (without a place) naming what is missing or not supported, such as pictures.
Conversation conversation_of(const nlohmann::json&, std::string_view text);

// {"prompt": .., "chosen": .., "rejected": ..}. The prompt is a list of messages, which may be
// called "conversations" as with LLaMA-Factory, or a user's text; an answer a list of messages, one
// message, or an assistant's text. Answers that are whole conversations, and so have the prompt in
// them, are taken as they are, as without a prompt.
struct ConversationPair {
  Conversation chosen, rejected;
  // The first message that the two do not share, or the last answer of the one that has it first.
  std::size_t learnt_from = 0;
};
// Throws likewise, and where one has no answer. The two may be the same.
ConversationPair conversation_pair_of(const nlohmann::json&, std::string_view text);

}  // namespace trireme
