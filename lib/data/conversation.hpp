#pragma once
// A conversation in a line of JSON.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trireme {

struct Message {
  std::string role, content;
  bool operator==(const Message&) const = default;
};
using Conversation = std::vector<Message>;

// {"messages": [{"role": .., "content": ..}, ..]}, or ShareGPT's {"conversations": [{"from": ..,
// "value": ..}, ..]}, in which human is user, gpt is assistant. A content is a text, or a list of
// {"type": "text", "text": ..}. Throws Error (without a place) naming what is missing or not
// supported: calls of tools, pictures.
Conversation conversation_of(const nlohmann::json&);

}  // namespace trireme
