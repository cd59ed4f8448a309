#pragma once
// Finds the keys of conversations and pairs that `tokenize` does not read, so that no part of the
// data is left out unnoticed.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Returns the keys in a line of JSON that none of conversation_of(), conversation_pair_of(),
// labeled_turns_of() and their forms for texts reads, each once. Keys of messages have their place,
// as in "messages[].reasoning_content". Keys whose value is null or empty do not count. Nor do
// keys of messages and of "chat_template_kwargs" for which is_read() returns true: the chat
// template reads them. "tool_call_id" never counts, because few templates print ids.
std::vector<std::string> unread_keys(const nlohmann::json& line,
                                     const std::function<bool(std::string_view)>& is_read);

}  // namespace trireme
