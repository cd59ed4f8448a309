#pragma once
// Reads conversations, preference pairs and labeled answers from lines of JSON.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A tool call in an assistant message. An empty `id` means that the call has no id.
struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
  std::string id{};
  bool operator==(const ToolCall&) const = default;
};
struct Message {
  std::string role, content;
  // Tool calls, written after the content.
  std::vector<ToolCall> calls{};
  // Descriptions of the conversation's tools, one JSON object each. Only the first message has
  // them.
  std::vector<std::string> tools{};
  // Id of the tool call that this message answers. Empty if the message answers none.
  std::string call_id{};
  bool learnt = true;  // false if an assistant message is not trained on
  bool operator==(const Message&) const = default;
};
using Conversation = std::vector<Message>;

// Reads a conversation from a JSON object, in one of two forms:
//
//   {"messages": [{"role": .., "content": ..}, ..]}
//   {"conversations": [{"from": .., "value": ..}, ..]}   (ShareGPT)
//
// A message may have either form. ShareGPT's roles such as human and gpt become user and assistant,
// LLaMA-Factory's observation becomes tool, and OpenAI's developer becomes system. The content of
// LLaMA-Factory's role function_call is a JSON text of calls, and the message becomes one of the
// assistant with these calls.
// A content is a text or a list of {"type": "text", "text": ..}. It may be null if the message has
// "tool_calls": [{"id": .., "function": {"name": .., "arguments": {..}}}, ..]. A tool's answer has
// a "tool_call_id". An assistant message with "weight": 0 (OpenAI) or "train": false (axolotl) is
// not trained on.
//
// The object may also have a list of objects "tools" or a JSON text of this list, and a text
// "system" that precedes the messages. Tools and arguments are written as Python's json.dumps does.
// Arguments that are already a string must be JSON and are kept unchanged. `text` is the JSON text
// of the object.
//
// Throws Error, naming the missing or unsupported part (for example images). The caller adds the
// file and line to the error.
Conversation conversation_of(const nlohmann::json&, std::string_view text);

// Two conversations that answer the same prompt, from {"prompt": .., "chosen": .., "rejected": ..}.
// The prompt is a list of messages, or the text of a user message. As in LLaMA-Factory, the field
// may also be called "conversations". An answer is a list of messages, one message, or the text of
// an assistant message. If the answers are whole conversations, they already contain the prompt,
// and the prompt is not added again.
struct ConversationPair {
  Conversation chosen, rejected;
  // Index of the first message that is trained on: the first message in which the two conversations
  // differ, but at most the index of the last assistant message in either of them.
  std::size_t learnt_from = 0;
};
// Reads a pair in the form that ConversationPair describes. Throws Error under the conditions of
// conversation_of(), and if a conversation has no assistant message. The two conversations may be
// equal.
ConversationPair conversation_pair_of(const nlohmann::json&, std::string_view text);

// The messages of a prompt, which begin with a system message and tools, if any, and those of an
// answer to it.
struct LabeledTurns {
  Conversation prompt, answer;
};
// Reads the messages of {"prompt": .., "completion": .., "label": ..}, in the forms of a prompt and
// an answer in a ConversationPair. Without a completion, the object is a conversation as in
// conversation_of(), and the answer is its last message. Throws Error under the conditions of
// conversation_of(), and if the prompt is empty or the answer has no assistant message.
LabeledTurns labeled_turns_of(const nlohmann::json&, std::string_view text);

}  // namespace trireme
