#pragma once
// Patterns of public tokenizers that cut text into words.
#include <string_view>

namespace trireme {

// GPT-2's, which ByteLevel has without naming it.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama 3's and OpenAI's cl100k_base.
inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view o200k_pattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Whether a text that is cut falls into the words of the whole text, where the cut is between a
// character that is no space and a space; or behind a line end that follows such a character and
// is followed by one that is neither space nor '/'. In these patterns a space or line end begins
// every alternative that it occurs in, but for the line ends behind punctuation, which are taken
// with it up to the cut; and nothing looks ahead behind a character that is no space.
constexpr bool splits_at_spaces(std::string_view pattern) {
  return pattern == gpt2_pattern || pattern == llama3_pattern || pattern == qwen2_pattern ||
         pattern == o200k_pattern;
}

}  // namespace trireme
