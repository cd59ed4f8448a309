#pragma once
// How a conversation stands in a text: what is written before and behind the content of each turn.
// Some are known by name; others are read from a file (lib/data/chat_template_file.hpp).
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/value_names.hpp"
#include "lib/data/tokenizer.hpp"

namespace trireme {

// What an assistant's message may be. White space beside calls is no content where it is one or
// the other.
enum class MessageHas : std::uint8_t { content_and_calls, content_or_calls, content_or_one_call };
template <>
inline constexpr auto value_names<MessageHas> = named<MessageHas>("content_and_calls",
                                                                  "content_or_calls",
                                                                  "content_or_one_call");

// Behind the content of the system's turn, which is written then; before the content of the first
// user's turn, with which the conversation begins; before the whole turn of the last user.
enum class ToolsPlace : std::uint8_t { system, first_user, before_last_user };
template <>
inline constexpr auto value_names<ToolsPlace> = named<ToolsPlace>("system", "first_user",
                                                                  "before_last_user");

// A system text in a user's turn stands before its content.
enum class SystemPlace : std::uint8_t { own_turn, first_user, last_user };

struct ChatTemplate {
  struct Turn {
    std::string before, after;  // with "{id}" of the call that the message answers
    // Before the first and behind the last of turns of this role that follow each other.
    std::string group_before{}, group_after{};
    bool trimmed = false;  // as that of the template, of this role alone
    bool json = false;     // the content is written as a JSON string, untrimmed
    bool operator==(const Turn&) const = default;
  };
  // Calls of tools, behind the content of an assistant's turn.
  struct Calls {
    // With "{name}", "{arguments}", which is JSON, and "{id}"; empty: none are written.
    std::string each{};
    std::string between{};          // calls, and before the first where there is a content
    std::string before{}, after{};  // all of them
    MessageHas message = MessageHas::content_and_calls;
    std::int64_t call_id_length = 0;  // characters of each "{id}"; 0: any
    bool operator==(const Calls&) const = default;
  };
  // The tools of a conversation.
  struct Tools {
    std::string before{}, each{}, after{};  // each with "{tool}", which is JSON; empty: refused
    std::string apart{};  // in the system's turn: before all where there is a system's text
    std::string between{};
    std::int64_t indent = 0;  // spaces a level of their JSON; 0: each on one line
    ToolsPlace place = ToolsPlace::system;
    std::string system_before{};  // where there are some: that of the system's turn; empty: as ever
    bool operator==(const Tools&) const = default;
  };
  std::string name{};
  std::map<std::string, Turn, std::less<>> turns{};  // by role; "assistant" is there
  std::string begin{}, end{};                        // of a conversation
  // Texts that are one token each wherever they stand above. In contents they are plain text, and
  // so they are in a system text that stands in a user's turn.
  std::vector<std::string> special{};
  // Texts above that look like special tokens, as "<|user|>", and may be plain text: they are where
  // the tokenizer has no such token.
  std::vector<std::string> plain{};
  std::string default_system{};  // content of the system turn where a conversation has none
  SystemPlace system = SystemPlace::own_turn;
  bool system_always = false;  // its own turn is the first of each conversation, and no other
  bool trimmed = false;        // contents are written without white space at both ends
  // User and assistant take turns, the user begins. Messages with calls and those of the role
  // "tool" do not count.
  bool alternating = false;
  // Written behind `before` of the last turn, if that is the assistant's and the user had one; line
  // ends at the begin of its content are then left out.
  std::string before_last{};
  Calls calls{};
  Tools tools{};
  // A text that contents may not hold, as the model's own template treats it in another way.
  std::string refused{};
  bool operator==(const ChatTemplate&) const = default;
};

std::vector<std::string> chat_template_names();
// Throws Error, naming all, when none has this name.
ChatTemplate chat_template_named(std::string_view name);

// "{bos}" and "{eos}" stand for what begins and ends a text of the tokenizer: the bos_token and
// eos_token that its files name, where it has none "<s>" and "</s>". They and all special tokens of
// the tokenizer that the template writes are added to `special`. Throws Error where one of these is
// no token, where one stands in a text that is written as contents are, and where the template
// writes "<..>", without white space in it, that is neither a token nor of `plain`.
ChatTemplate with_tokens_of(ChatTemplate, const Tokenizer&);

// A part of a template's text.
struct ChatPart {
  std::string_view text;
  bool stands_for_other;  // one of `names`, as "{tool}"
};
std::vector<ChatPart> parts_of(std::string_view text, const std::vector<std::string_view>& names);
// Does it have a place for the id of a call?
bool writes_id(std::string_view text);

// Bytes of the longest special text that `text` begins with; 0: it begins with none.
std::size_t special_at(const ChatTemplate&, std::string_view text);
// What an answer is written behind when it is to come: without the spaces that are part of its
// first token.
std::string begin_of_answer(const ChatTemplate&);
// What calls are written behind in the place of a content: spaces there are a content's.
std::string begin_of_calls(const ChatTemplate&);
// The special text with which an answer ends, as it is learnt; empty: it ends with plain text.
std::string end_of_turn(const ChatTemplate&);

}  // namespace trireme
