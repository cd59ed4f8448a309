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
  bool operator==(const ToolCall&) const = default;
};
struct Message {
  std::string role, content;
  std::vector<ToolCall> calls{};     // behind the content
  std::vector<std::string> tools{};  // of the first one: those of the conversation, JSON each
  bool operator==(const Message&) const = default;
};
using Conversation = std::vector<Message>;

// {"messages": [{"role": .., "content": ..}, ..]}, or ShareGPT's {"conversations": [{"from": ..,
// "value": ..}, ..]}, in which human is user, gpt is assistant. A content is a text, or a list of
// {"type": "text", "text": ..}, or null beside "tool_calls": [{"function": {"name": ..,
// "arguments": {..}}}, ..]. Beside the messages "tools" may be a list of objects. Their JSON is
// written as Python does; arguments that are a text are JSON already and stay as they are. `text`
// is the object's own. Throws Error (without a place) naming what is missing or not supported, such
// as pictures.
Conversation conversation_of(const nlohmann::json&, std::string_view text);

// {"chosen": [message, ..], "rejected": [message, ..]}, behind the messages of "prompt", where that
// is there.
struct ConversationPair {
  Conversation chosen, rejected;
  // The first message that the two do not share, or the last answer of the one that has it first.
  std::size_t learnt_from = 0;
};
// Throws likewise, and where the two are the same or one has no answer.
ConversationPair conversation_pair_of(const nlohmann::json&, std::string_view text);

}  // namespace trireme
