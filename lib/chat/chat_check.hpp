#pragma once
// Checks that decide which conversations a chat template can write.
#include <cstddef>
#include <string>
#include <string_view>

#include "lib/chat/chat_template.hpp"
#include "lib/chat/conversation.hpp"

namespace trireme {

// Throws Error if the template cannot write the conversation. The error names the message by its
// number. The caller adds the file and line to the error.
void require_writable(const ChatTemplate&, const Conversation&);

// Returns the template's turn for `role`. Throws Error if the template has no such role. `number`
// is the message's number, from 1, for the error message.
const ChatTemplate::Turn& turn_of(const ChatTemplate&, const std::string& role, std::size_t number);

// Removes white space at both ends, as Python's str.strip() does.
std::string_view trimmed(std::string_view text);

}  // namespace trireme
