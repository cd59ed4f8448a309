#pragma once
// Adds tokens to a tokenizer, for example those of a chat template.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// A token to add. In a message of a conversation, the text of a special token is encoded as plain
// text. The text of any other token becomes the token everywhere.
struct NewToken {
  std::string text;
  bool special = false;
};

// A tokenizer with added tokens.
struct MoreTokens {
  TokenizerSpec spec;
  // The ids of the tokens, in the order in which they were requested. Tokens that the tokenizer
  // already had keep their ids.
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> known;  // 1 if the token was already an added token
};

// Adds tokens to a Hugging Face tokenizer. New tokens get the ids that the tokenizers library gives
// them. A word of the vocabulary keeps its id. Other tokens get the ids after the vocabulary and
// the added tokens, in order. A token that is already an added token does not change, even if
// NewToken::special differs. Throws Error if the tokenizer is of another kind, if a token is empty,
// not UTF-8 or given twice, or if the vocabulary has another token with the new id. The message
// names `where`, except for a token that is given twice.
MoreTokens with_tokens(const TokenizerSpec&, std::span<const NewToken> tokens,
                       std::string_view where);

}  // namespace trireme
