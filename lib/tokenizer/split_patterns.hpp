#pragma once
// Patterns with which public tokenizers split text into words.
#include <string_view>

namespace trireme {

// GPT-2's pattern. The pre-tokenizer type ByteLevel uses it implicitly.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// The pattern of Llama 3 and of OpenAI's cl100k_base.
inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view o200k_pattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Returns true if the pattern permits cuts at spaces and line ends, because these cuts leave a
// text's words unchanged. The first kind of cut is between a non-space character and a space. The
// second kind is after a line end that follows a non-space character and precedes a character other
// than a space or '/'.
//
// This holds for the patterns above. In each of them, a space or line end begins every alternative
// that contains it, except for line ends after punctuation, which belong to the word before the
// cut. No alternative looks ahead after a non-space character.
constexpr bool splits_at_spaces(std::string_view pattern) {
  return pattern == gpt2_pattern || pattern == llama3_pattern || pattern == qwen2_pattern ||
         pattern == o200k_pattern;
}

}  // namespace trireme
