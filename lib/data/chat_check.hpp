#pragma once
// Which conversations a chat template can write.
#include <cstddef>
#include <string>
#include <string_view>

#include "lib/data/chat_template.hpp"
#include "lib/data/conversation.hpp"

namespace trireme {

// Throws Error (without a place), naming the message, for a conversation that it cannot write.
void require_writable(const ChatTemplate&, const Conversation&);

// Of message `number`, from 1. Throws Error where the template has no such role.
const ChatTemplate::Turn& turn_of(const ChatTemplate&, const std::string& role, std::size_t number);

// As Python's str.strip().
std::string_view trimmed(std::string_view text);

}  // namespace trireme
