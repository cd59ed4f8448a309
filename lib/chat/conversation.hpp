#pragma once
// Reads conversations, preference pairs and labeled answers from lines of JSON.
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/json.hpp"

namespace trireme {

struct Message {
  Message() = default;
  // Creates a message that has only a role and a content.
  Message(std::string role_name, std::string content)
      : role(std::move(role_name)), fields{{"role", role}, {"content", std::move(content)}} {}

  std::string role;
  // The message as chat templates see it, including "role" and "content". The content is a string.
  // Tool calls have the form {"id": .., "type": "function", "function": {"name": .., "arguments":
  // {..}}}.
  OrderedJson fields;
  // Whether the message is trained on. If absent, its role decides.
  std::optional<bool> learnt{};

  const std::string& content() const { return fields.at("content").get_ref<const std::string&>(); }
  bool has_calls() const { return fields.contains("tool_calls"); }
  bool operator==(const Message&) const = default;
};
struct Conversation {
  std::vector<Message> messages{};
  OrderedJson tools = OrderedJson::array();  // descriptions of the tools
  // More variables of the chat template, such as {"enable_thinking": false}.
  OrderedJson variables = OrderedJson::object();
  bool operator==(const Conversation&) const = default;
};

// Reads a conversation from a JSON object, in one of these forms:
//
//   {"messages": [{"role": .., "content": ..}, ..]}
//   {"conversations": [{"from": .., "value": ..}, ..]}   (ShareGPT)
//   {"prompt": .., "completion": ..}                     (TRL; only the completion is trained on)
//   {"instruction": .., "input": .., "output": ..}       (alpaca, with "history" and "system")
//
// A prompt and a completion have the forms of ConversationPair. A message in either list may have
// "role" and "content", or "from" and "value". ShareGPT's roles such as human and gpt become user
// and assistant, and LLaMA-Factory's observation becomes tool. A message with LLaMA-Factory's role
// function_call, whose content is a JSON text of calls, becomes an assistant message with these
// calls. A content is a text or a list of {"type": "text", "text": ..}. It may be null if the
// message has "tool_calls": [{"id": .., "function": {"name": .., "arguments": {..}}}, ..].
// Arguments that are a string are parsed as JSON. A message with "weight": 0 (OpenAI) or "train":
// false (axolotl) is not trained on, and one with "train": true is, whatever its role is. Other
// keys of messages are kept for the chat template, unless they are null.
//
// The object may also have a list of objects "tools" or a JSON text of this list, a text "system"
// that precedes the messages, and an object "chat_template_kwargs" of variables.
//
// Throws Error, naming the missing or unsupported part (for example images). The caller adds the
// file and line to the error.
Conversation conversation_of(const OrderedJson&);

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
ConversationPair conversation_pair_of(const OrderedJson&);

// A prompt, which has the tools and variables, and the messages of an answer to it.
struct LabeledTurns {
  Conversation prompt;
  std::vector<Message> answer;
};
// Reads the messages of {"prompt": .., "completion": .., "label": ..}, in the forms of a prompt and
// an answer in a ConversationPair. Without a completion, the object is a conversation as in
// conversation_of(), and the answer is its last message. Throws Error under the conditions of
// conversation_of(), and if the prompt is empty or the answer has no assistant message.
LabeledTurns labeled_turns_of(const OrderedJson&);

}  // namespace trireme
