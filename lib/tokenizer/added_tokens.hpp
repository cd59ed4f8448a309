#pragma once
// Added tokens: tokens that are searched for in text before the text is split into words. Some of
// them are special, such as "<|endoftext|>". Others extend a vocabulary.
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

// One entry of "added_tokens" in tokenizer.json.
struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};
// Returns the tokens in a JSON array, or an empty vector if the value is null. Throws Error if a
// token is empty or an id is invalid.
std::vector<AddedToken> added_tokens_in(const nlohmann::json&);

// Returns the length of `text` in bytes, without trailing whitespace. A token with lstrip includes
// the whitespace before it.
std::size_t without_spaces_at_end(std::string_view text);
// Returns the length of the leading whitespace in bytes. A token with rstrip includes the
// whitespace after it.
std::size_t spaces_at_start(std::string_view text);

// A part of a text: either one added token, or text without added tokens.
struct TextSegment {
  TextSpan span;
  // The token's id. Empty for text without added tokens.
  std::optional<std::int32_t> id;
};

// Finds added tokens in text. It finds the leftmost match and, among matches at the same position,
// the longest one.
class TokenFinder {
 public:
  // Builds the search tree. `text_of` returns the text that is searched for to find a token. The
  // tokens must outlive this object, but the vector need not.
  TokenFinder(const std::vector<const AddedToken*>& tokens,
              const std::function<std::string(const AddedToken&)>& text_of);
  // Appends segments that together cover `text`, in order. No segment is empty.
  void split(std::string_view text, std::vector<TextSegment>& segments) const;

 private:
  struct Node {
    const AddedToken* token = nullptr;  // the token that ends here
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
