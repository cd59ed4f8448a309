#pragma once
// Chat templates: the text before and after the content of each turn of a conversation. Some
// templates are known by name. Others are read from a file (lib/chat/chat_template_file.hpp).
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/value_names.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// Contents that the template allows in one assistant message:
// - content_and_calls: text, tool calls, or both.
// - content_or_calls: text or tool calls. White space next to calls does not count as text.
// - content_or_one_call: text or a single tool call. White space next to the call does not count.
enum class MessageHas : std::uint8_t { content_and_calls, content_or_calls, content_or_one_call };
template <>
inline constexpr auto value_names<MessageHas> = named<MessageHas>("content_and_calls",
                                                                  "content_or_calls",
                                                                  "content_or_one_call");

// Where the tool descriptions are written:
// - system: after the content of the system turn. If the conversation has no system message, a
//   system turn with the default text is added.
// - first_user: before the content of the first user turn, which must begin the conversation.
// - before_last_user: before the whole turn of the last user message.
enum class ToolsPlace : std::uint8_t { system, first_user, before_last_user };
template <>
inline constexpr auto value_names<ToolsPlace> = named<ToolsPlace>("system", "first_user",
                                                                  "before_last_user");

// Where the system text is written: in a separate turn, or before the content of the first or last
// user turn.
enum class SystemPlace : std::uint8_t { own_turn, first_user, last_user };

// A chat template: texts that surround the content of each message, and rules that conversations
// must satisfy. "{bos}" and "{eos}" in texts are placeholders (see with_tokens_of).
struct ChatTemplate {
  // The texts around the content of one role's messages.
  struct Turn {
    // Texts around the content. They may contain "{id}", the id of the tool call that the message
    // answers.
    std::string before, after;
    // Texts before the first and after the last turn of a group of consecutive turns of this role.
    std::string group_before{}, group_after{};
    // Whether contents are trimmed, like ChatTemplate::trimmed, but for this role only.
    bool trimmed = false;
    // Whether the content is written as a JSON string. Such a content is not trimmed.
    bool json = false;
    bool operator==(const Turn&) const = default;
  };
  // Format of an assistant message's tool calls, which are written after its content.
  struct Calls {
    // Text of one call, with the placeholders "{name}", "{arguments}" (JSON) and "{id}". If the
    // text is empty, the template does not support tool calls.
    std::string each{};
    // Text between two calls, and between the content and the first call.
    std::string between{};
    // Texts before the first call and after the last one.
    std::string before{}, after{};
    MessageHas message = MessageHas::content_and_calls;
    // Required length of each "{id}", in characters. 0 allows any length.
    std::int64_t call_id_length = 0;
    bool operator==(const Calls&) const = default;
  };
  // Format of the conversation's tool descriptions.
  struct Tools {
    // `each` is the text of one tool, with the placeholder "{tool}" (JSON). If `each` is empty, the
    // template rejects conversations with tools. `before` and `after` enclose all the tools.
    std::string before{}, each{}, after{};
    // Text that precedes `before` if the tools are in the system turn and the system turn has
    // content.
    std::string apart{};
    std::string between{};
    // Number of spaces per indentation level of the tools' JSON. 0 writes each tool on one line.
    std::int64_t indent = 0;
    ToolsPlace place = ToolsPlace::system;
    // Text that replaces the system turn's `before` if the conversation has tools. An empty text
    // replaces nothing.
    std::string system_before{};
    bool operator==(const Tools&) const = default;
  };
  std::string name{};
  // Turns by role. An "assistant" turn always exists.
  std::map<std::string, Turn, std::less<>> turns{};
  // Texts before and after the whole conversation.
  std::string begin{}, end{};
  // Texts that become one token each wherever they occur in the template's texts. They are encoded
  // as plain text inside message contents, and inside a system text that is written into a user
  // turn.
  std::vector<std::string> special{};
  // Texts of the template that look like special tokens, for example "<|user|>", but may be plain
  // text. They are encoded as plain text if the tokenizer has no such token.
  std::vector<std::string> plain{};
  // Content of the system turn if a conversation has no system message.
  std::string default_system{};
  SystemPlace system = SystemPlace::own_turn;
  // Whether every conversation begins with a system turn and contains no other system turn.
  bool system_always = false;
  // Whether white space at both ends of contents is removed.
  bool trimmed = false;
  // Whether user and assistant messages must alternate, beginning with the user. Messages with tool
  // calls and messages of the role "tool" do not count.
  bool alternating = false;
  // Text that is written after `before` of the last turn, if that turn is the assistant's and the
  // conversation has a user message. Line ends at the beginning of the turn's content are then
  // removed.
  std::string before_last{};
  Calls calls{};
  Tools tools{};
  // Text that contents must not contain, because the model's original template treats it specially.
  // An empty text forbids nothing.
  std::string refused{};
  bool operator==(const ChatTemplate&) const = default;
};

// Returns the names of the known templates.
std::vector<std::string> chat_template_names();
// Returns the template with this name. Throws Error, listing all names, if there is no such
// template.
ChatTemplate chat_template_named(std::string_view name);

// Returns the template adapted to a tokenizer. "{bos}" and "{eos}" are replaced by the bos_token
// and eos_token that the tokenizer's files name. For a tokenizer without these files, "<s>" and
// "</s>" are used if they are tokens. These two tokens, and all of the tokenizer's special tokens
// that the template writes, are added to `special`.
//
// Throws Error in these cases:
// - A text in `special` is not a token.
// - A special token occurs in a system text that is encoded as plain text.
// - The template writes a text of the form "<..>", without white space, that is neither a token nor
//   listed in `plain`.
ChatTemplate with_tokens_of(ChatTemplate, const Tokenizer&);

// A part of a template's text, as parts_of() splits it.
struct ChatPart {
  std::string_view text;
  // True if `text` is a placeholder, for example "{tool}".
  bool stands_for_other;
};
// Splits `text` at each occurrence of the placeholders `names`. The placeholders are parts, too.
std::vector<ChatPart> parts_of(std::string_view text, const std::vector<std::string_view>& names);
// Returns true if `text` contains the placeholder "{id}" for the id of a tool call.
bool writes_id(std::string_view text);

// Returns the length in bytes of the longest special text at the beginning of `text`. Returns 0 if
// `text` does not begin with a special text.
std::size_t special_at(const ChatTemplate&, std::string_view text);
// Returns the text that precedes a generated answer. Trailing spaces are omitted, because they
// belong to the answer's first token.
std::string begin_of_answer(const ChatTemplate&);
// Returns the text that precedes tool calls in a message without content. Trailing spaces are
// omitted, because they belong to the content that would follow.
std::string begin_of_calls(const ChatTemplate&);
// Returns the special text that ends an answer and that the model is trained to generate. Returns
// an empty string if answers end with plain text.
std::string end_of_turn(const ChatTemplate&);

}  // namespace trireme
