#include "lib/chat/chat_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

// Returns true for the characters that Python's str.strip() removes.
bool is_stripped(std::int32_t c) {
  return is_space(c) || (c >= 0x1c && c <= 0x1f);
}
}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_stripped(first_code_point(text).value))
    text.remove_prefix(first_code_point(text).bytes);
  while (!text.empty() && is_stripped(last_code_point(text).value))
    text.remove_suffix(last_code_point(text).bytes);
  return text;
}

const ChatTemplate::Turn& turn_of(const ChatTemplate& t, const std::string& role,
                                  std::size_t number) {
  const auto found = t.turns.find(role);
  if (found != t.turns.end()) return found->second;
  std::vector<std::string> roles;
  for (const auto& [name, turn] : t.turns) roles.push_back(name);
  fail(
      "message {} has the role \"{}\", but the chat template {} has only the roles {}: rename the "
      "role, or write a template with a section for it",
      number, role, t.name, fmt::join(roles, ", "));
}

namespace {

// Throws Error if a call's id is missing or has the wrong length. `owner` names the call in
// messages, as in "call 1 of message 2".
void require_id(const ChatTemplate& t, const std::string& id, const char* field,
                const std::string& owner) {
  require(!id.empty(), "{} has no text in \"{}\", which the chat template {} needs: add it", owner,
          field, t.name);
  const auto length = std::ranges::count_if(id, [](char c) { return (c & 0xc0) != 0x80; });
  require(t.calls.call_id_length == 0 || length == t.calls.call_id_length,
          "{} has the \"{}\" {} of {} characters, but the chat template {} needs {} characters",
          owner, field, id, length, t.name, t.calls.call_id_length);
}

void require_calls(const ChatTemplate& t, const Message& message, std::size_t number) {
  if (message.calls.empty()) return;
  require(message.role == "assistant" && !t.calls.each.empty(),
          "message {} has \"tool_calls\", but the chat template {} writes {}", number, t.name,
          t.calls.each.empty()
              ? "no tool calls: write a template with a text for them (key \"call\")"
              : "only tool calls of the assistant");
  require(t.calls.message == MessageHas::content_and_calls || trimmed(message.content).empty(),
          "message {} has both \"tool_calls\" and content, but the chat template {} writes only "
          "one of them per message: remove one, or give each its own message",
          number, t.name);
  require(t.calls.message != MessageHas::content_or_one_call || message.calls.size() == 1,
          "message {} has {} \"tool_calls\", but the chat template {} writes only one per message: "
          "give each call its own message",
          number, message.calls.size(), t.name);
  if (writes_id(t.calls.each))
    for (std::size_t i = 0; i < message.calls.size(); ++i)
      require_id(t, message.calls[i].id, "id", fmt::format("call {} of message {}", i + 1, number));
}

void require_alternating(const ChatTemplate& t, const Conversation& c, std::size_t turns_begin) {
  std::size_t said = 0;
  for (std::size_t i = turns_begin; i < c.size(); ++i) {
    if (c[i].role == "tool" || !c[i].calls.empty()) continue;
    const auto* const role = said++ % 2 == 0 ? "user" : "assistant";
    require(c[i].role == role,
            "message {} has the role \"{}\", but in the chat template {} user and assistant must "
            "take turns, beginning with the user",
            i + 1, c[i].role, t.name);
  }
}

// Throws Error if the conversation lacks the message in which the template writes the system text
// or the tools.
void require_places(const ChatTemplate& t, const Conversation& c, std::size_t turns_begin) {
  const bool any_tools = !c[0].tools.empty();
  const bool any_system = turns_begin > 0 || !t.default_system.empty();
  const bool first = any_system && t.system == SystemPlace::first_user;
  require(!first || c[turns_begin].role == "user",
          "message {} has the role \"{}\", but must have the role \"user\", because the chat "
          "template {} writes the system text into it",
          turns_begin + 1, c[turns_begin].role, t.name);
  require(!any_tools || t.tools.place != ToolsPlace::first_user || c[turns_begin].role == "user",
          "message {} has the role \"{}\", but must have the role \"user\", because the chat "
          "template {} writes \"tools\" into it",
          turns_begin + 1, c[turns_begin].role, t.name);
  const bool last = (any_system && t.system == SystemPlace::last_user) ||
                    (any_tools && t.tools.place == ToolsPlace::before_last_user);
  require(!last || std::ranges::find(c, "user", &Message::role) != c.end(),
          "the conversation has no user message, but the chat template {} writes the system text "
          "and the tools with the last user message",
          t.name);
}

}  // namespace

void require_writable(const ChatTemplate& t, const Conversation& c) {
  const std::size_t turns_begin = !c.empty() && c[0].role == "system" ? 1 : 0;
  require(c.size() > turns_begin, "the conversation has no message other than a system message");
  require(c[0].tools.empty() || !t.tools.each.empty(),
          "the conversation has \"tools\", which the chat template {} does not write: remove them, "
          "or write a template with a text for them (key \"tool\")",
          t.name);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto& turn = turn_of(t, c[i].role, i + 1);
    require(
        t.refused.empty() || c[i].content.find(t.refused) == std::string::npos,
        "message {} contains {}, which the chat template {} does not allow in messages: remove it",
        i + 1, t.refused, t.name);
    require_calls(t, c[i], i + 1);
    if (writes_id(turn.before) || writes_id(turn.after))
      require_id(t, c[i].call_id, "tool_call_id", fmt::format("message {}", i + 1));
    require(
        i == 0 || c[i].role != "system" || (t.system == SystemPlace::own_turn && !t.system_always),
        "message {} is a system message, but the chat template {} allows a system message only at "
        "the beginning",
        i + 1, t.name);
  }
  require_places(t, c, turns_begin);
  if (t.alternating) require_alternating(t, c, turns_begin);
}

}  // namespace trireme
