#pragma once
// A conversation as one text, and its ids with what is learnt of them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/data/chat_template.hpp"
#include "lib/data/conversation.hpp"

namespace trireme {

struct ChatText {
  std::string text;
  std::vector<TextSpan> special;  // of the template, in the order of the text: one token each
  // What is learnt: an assistant's content, and what is behind it up to the first token of
  // `special`, which ends its turn; all that is behind it, where none is. They do not overlap.
  std::vector<TextSpan> targets;
};

// Throws Error (without a place) for a role that the template does not have, or a conversation that
// it cannot write. The template is with_tokens_of. What comes before message `learnt_from` is not
// learnt.
ChatText write_chat(const ChatTemplate&, const Conversation&, std::size_t learnt_from = 0);

// The same up to where the assistant's next answer begins, as it does in what write_chat makes; but
// spaces there are left out, as they are part of the answer's first token. Nothing is learnt.
// Throws Error where the conversation ends with an answer.
ChatText write_question(const ChatTemplate&, const Conversation&);

// Appends the ids of the whole text and, for each, 1 when it is learnt: when a byte of a target is
// in it. Throws Error (without a place) where the text of a special token in a content cannot be
// kept apart from that token.
void encode_chat(const Tokenizer&, const ChatText&, std::vector<std::int32_t>& ids,
                 std::vector<std::uint8_t>& targets);

}  // namespace trireme
