#pragma once
// Adds special tokens to a tokenizer, for example those of a chat template.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// A tokenizer with added tokens.
struct MoreTokens {
  TokenizerSpec spec;
  // The ids of the tokens, in the order in which they were requested. Tokens that the tokenizer
  // already had keep their ids.
  std::vector<std::int32_t> ids;
};

// Adds special tokens to a Hugging Face tokenizer. New tokens get the ids after the largest id of
// the vocabulary, in order. Throws Error, naming `where`, if the tokenizer is of another kind, or
// if a token is empty.
MoreTokens with_tokens(const TokenizerSpec&, std::span<const std::string> tokens,
                       std::string_view where);

}  // namespace trireme
