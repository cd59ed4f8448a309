#pragma once
// Private-use characters that replace or mark parts of a conversation while its chat template is
// rendered:
// - The text of a special token inside a message, so that it is not taken for a token of the
//   template.
// - The begin and the end of a message's content, so that its place in the text is known.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/chat/jinja.hpp"

namespace trireme {

// Finds the longest of several texts with which another text begins. A search takes constant time
// if none of them begins with the first byte of the other text.
class LongestText {
 public:
  explicit LongestText(std::vector<std::string> texts);
  const std::vector<std::string>& texts() const { return texts_; }
  // Returns the index of the longest text with which `text` begins.
  std::optional<std::size_t> at(std::string_view text) const;

 private:
  std::vector<std::string> texts_;
  std::vector<std::vector<std::size_t>> by_first_;  // indices by first byte, longest first
};

// Which part of a message a character marks.
enum class MessagePart : std::uint8_t { content, thought, call };

// The private-use characters for one conversation.
class PrivateCharacters {
 public:
  // Chooses a private-use plane of Unicode (15 or 16) without characters in `data`. Throws Error if
  // `data` uses both planes, or a character from U+10F000 on, which generation_marks() needs.
  explicit PrivateCharacters(std::string_view data);

  // Returns the value with the text of each token replaced by a private-use character, in keys and
  // strings.
  OrderedJson without_tokens(const OrderedJson&, const LongestText& tokens) const;
  // Return the mark before or after a part of a message. Throw Error if the index of the message is
  // too large.
  std::string begin(std::size_t message, MessagePart) const;
  std::string end(std::size_t message, MessagePart) const;
  // Returns the index of the token that the character at the start of `text` stands for.
  std::optional<std::size_t> token_at(std::string_view text) const;
  // Returns true if a text starts with the mark of a message.
  bool is_message_mark(std::string_view text) const;
  // Returns true if a text starts with the mark of a message or of {% generation %}.
  bool is_mark(std::string_view text) const;

 private:
  std::string character(std::int32_t number) const;
  std::int32_t plane_;
};

// The characters for {% generation %}.
GenerationMarks generation_marks();

}  // namespace trireme
