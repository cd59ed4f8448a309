#pragma once
// Tokens that are found in text before it is split into words: special ones as "<|endoftext|>", and
// others that were added to a vocabulary.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/tokenizer/normalizer.hpp"
#include "lib/tokenizer/regex.hpp"

namespace trireme {

struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};
std::vector<AddedToken> added_tokens_in(const nlohmann::json&);

// What a token with lstrip takes from the text before it, and one with rstrip behind it.
std::size_t without_spaces_at_end(std::string_view text);  // the length that is left
std::size_t spaces_at_start(std::string_view text);

// A part of a text that is one added token, or has none.
struct TextSegment {
  TextSpan span;
  std::optional<std::int32_t> id;
};

// Finds the leftmost and, of those, the longest of some tokens.
class TokenFinder {
 public:
  // `tokens` outlive it; `text_of` is what stands in a text for a token.
  TokenFinder(const std::vector<const AddedToken*>& tokens,
              const std::function<std::string(const AddedToken&)>& text_of);
  // Appends all of a text that is not empty.
  void split(std::string_view text, std::vector<TextSegment>& segments) const;

 private:
  struct Node {
    const AddedToken* token = nullptr;  // that ends here
    std::unordered_map<char, std::size_t> next;
  };
  struct Match {
    const AddedToken* token = nullptr;
    std::size_t bytes = 0;
  };
  Match longest_at(std::string_view text) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  bool begins_[256] = {};
};

}  // namespace trireme
