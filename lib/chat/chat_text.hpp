#pragma once
// The text of a conversation, and its token ids with a mask of the tokens on which the model is
// trained.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// Text of a conversation. All spans are byte ranges of `text`, in ascending order, and do not
// overlap.
struct ChatText {
  std::string text;
  // Spans of special tokens: those that the template writes, and pairs such as <think> and
  // </think> in messages. Each span becomes one token.
  std::vector<TextSpan> special;
  // Spans on which the model is trained.
  std::vector<TextSpan> targets;
  // Numbers of the messages, counted from 1, whose content the template leaves out.
  std::vector<std::size_t> left_out{};
  // Numbers of the messages whose thought the template leaves out.
  std::vector<std::size_t> left_out_thoughts{};
  // Names of special tokens in messages and tools, in order. They are plain text.
  std::vector<std::string> plain_names{};
};

// Appends the ids of the whole text to `ids`. For each id, appends 1 to `targets` if the token
// contains a byte of a target span, otherwise 0. Throws Error if a message contains the text of a
// special token and the tokenizer cannot encode that text as plain text. The caller adds the file
// and line to the error.
void encode_chat(const Tokenizer&, const ChatText&, std::vector<std::int32_t>& ids,
                 std::vector<std::uint8_t>& targets);

}  // namespace trireme
