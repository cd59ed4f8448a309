#include "lib/tokenizer/added_tokens.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/tokenizer/json.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word(last_code_point(text).value);
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word(first_code_point(text).value);
}

}  // namespace

std::size_t without_spaces_at_end(std::string_view text) {
  while (!text.empty()) {
    const auto c = last_code_point(text);
    if (!is_space(c.value)) break;
    text.remove_suffix(c.bytes);
  }
  return text.size();
}

std::size_t spaces_at_start(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size()) {
    const auto c = first_code_point(text.substr(n));
    if (!is_space(c.value)) break;
    n += c.bytes;
  }
  return n;
}

std::vector<AddedToken> added_tokens_in(const nlohmann::json& list) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  for (const auto& one : list) {
    AddedToken token;
    token.text = text_in(one, "content");
    token.id = id_in(one.at("id"), fmt::format("id of {}", escaped(token.text)));
    token.single_word = flag_in(one, "single_word");
    token.lstrip = flag_in(one, "lstrip");
    token.rstrip = flag_in(one, "rstrip");
    token.special = flag_in(one, "special");
    token.normalized = flag_in(one, "normalized", !token.special);
    require(!token.text.empty(), "the added token with the id {} is empty", token.id);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

TokenFinder::TokenFinder(const std::vector<const AddedToken*>& tokens,
                         const std::function<std::string(const AddedToken&)>& text_of) {
  for (const auto* token : tokens) {
    const auto text = text_of(*token);
    if (text.empty()) continue;
    begins_[static_cast<unsigned char>(text[0])] = true;
    std::size_t node = 0;
    for (const char c : text) {
      const auto [next, is_new] = nodes_[node].next.emplace(c, nodes_.size());
      node = next->second;
      if (is_new) nodes_.emplace_back();
    }
    if (nodes_[node].token == nullptr) nodes_[node].token = token;
  }
}

TokenFinder::Match TokenFinder::longest_at(std::string_view text) const {
  Match match;
  std::size_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto next = nodes_[node].next.find(text[i]);
    if (next == nodes_[node].next.end()) break;
    node = next->second;
    if (nodes_[node].token != nullptr) match = {nodes_[node].token, i + 1};
  }
  return match;
}

// The algorithm is that of added_vocabulary.rs in tokenizers.
void TokenFinder::split(std::string_view text, std::vector<TextSegment>& segments) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const auto [token, bytes] = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + bytes;
    at = end;
    if (token->single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
      continue;
    if (token->lstrip) begin = std::max(without_spaces_at_end(text.substr(0, begin)), done);
    if (token->rstrip) end += spaces_at_start(text.substr(end));
    if (begin >= end) continue;  // the token before took all of it
    if (done < begin) segments.push_back({{done, begin}, std::nullopt});
    segments.push_back({{begin, end}, token->id});
    done = end;
  }
  if (done != text.size()) segments.push_back({{done, text.size()}, std::nullopt});
}

}  // namespace trireme
