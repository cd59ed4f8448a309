#pragma once
// Converts a conversation to a single text, and that text to token ids with a mask of the tokens on
// which the model is trained.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/chat/chat_template.hpp"
#include "lib/chat/conversation.hpp"

namespace trireme {

// Text of a conversation. All spans are byte ranges of `text`, in ascending order.
struct ChatText {
  std::string text;
  // Spans of the template's special tokens. Each span becomes one token.
  std::vector<TextSpan> special;
  // Spans on which the model is trained: each assistant message's content, and the text after the
  // content up to and including the first special token, which ends the turn. If no special token
  // follows, the span includes all of the turn's text after the content. The spans do not overlap.
  std::vector<TextSpan> targets;
};

// Converts a conversation to text. The template must come from with_tokens_of(). The model is
// trained only on messages from number `learnt_from` on (counted from 0). Throws Error if the
// template lacks a role or cannot write the conversation. The caller adds the file and line to the
// error.
ChatText write_chat(const ChatTemplate&, const Conversation&, std::size_t learnt_from = 0);

// Converts a conversation to a prompt: the text up to the beginning of the assistant's next answer.
// Trailing spaces are omitted, because they belong to the answer's first token. `targets` is empty.
// Throws Error if the conversation ends with an assistant message.
ChatText write_question(const ChatTemplate&, const Conversation&);

// Appends the ids of the whole text to `ids`. For each id, appends 1 to `targets` if the token
// contains a byte of a target span, otherwise 0. Throws Error if a message contains the text of a
// special token and the tokenizer cannot encode that text as plain text. The caller adds the file
// and line to the error.
void encode_chat(const Tokenizer&, const ChatText&, std::vector<std::int32_t>& ids,
                 std::vector<std::uint8_t>& targets);

}  // namespace trireme
