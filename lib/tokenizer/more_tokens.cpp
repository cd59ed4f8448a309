#include "lib/tokenizer/more_tokens.hpp"

#include <algorithm>
#include <map>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/json.hpp"
#include "lib/tokenizer/hf_files.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

// Throws Error unless each token is text that is given once.
static void require_addable(std::span<const NewToken> tokens, std::string_view where) {
  for (auto t = tokens.begin(); t != tokens.end(); ++t) {
    require(!t->text.empty() && well_formed_bytes(t->text) == t->text.size(),
            "the token \"{}\" cannot be added to the tokenizer of {}: it must be text in UTF-8",
            escaped(t->text), where);
    require(std::ranges::find(tokens, t->text, &NewToken::text) == t, "the token {} is given twice",
            escaped(t->text));
  }
}

// Returns the entry of tokenizer.json.
static OrderedJson added_token(const NewToken& token, std::int32_t id) {
  return {{"id", id},
          {"content", token.text},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", !token.special},
          {"special", token.special}};
}

MoreTokens with_tokens(const TokenizerSpec& spec, std::span<const NewToken> tokens,
                       std::string_view where) {
  require(spec.kind == TokenizerKind::huggingface,
          "{} has no tokenizer.json, so no tokens can be added to its tokenizer", where);
  require_addable(tokens, where);
  const auto tokenizer = make_tokenizer(spec, std::string(where));
  auto files = unpack(spec.bytes, where);
  auto& text = files.at(std::string(tokenizer_files[0]));
  auto json = parse_ordered_json(text);
  auto& added = json["added_tokens"];
  if (added.is_null()) added = OrderedJson::array();
  std::map<std::string, std::int32_t> known;
  auto next = static_cast<std::int32_t>(json.at("model").at("vocab").size());
  for (const auto& token : added) {
    const auto id = token.at("id").get<std::int32_t>();
    known[token.at("content").get<std::string>()] = id;
    next = std::max(next, id + 1);
  }
  MoreTokens more;
  for (const auto& token : tokens) {
    const auto found = known.find(token.text);
    more.known.push_back(found != known.end());
    if (found != known.end()) {
      more.ids.push_back(found->second);
      continue;
    }
    // A word of the vocabulary keeps its id, and is then found in all texts.
    const auto word = tokenizer->id_of(token.text);
    more.ids.push_back(word.value_or(next));
    next = std::max(next, more.ids.back() + 1);
    added.push_back(added_token(token, more.ids.back()));
  }
  text = json.dump(2) + "\n";
  more.spec = spec;
  more.spec.bytes = pack(files, where);
  const auto changed = make_tokenizer(more.spec, std::string(where));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    require(changed->id_of(tokens[i].text) == more.ids[i],
            "the token \"{}\" cannot be added to the tokenizer of {}, because its vocabulary has "
            "another token with the id {}",
            escaped(tokens[i].text), where, more.ids[i]);
  return more;
}

}  // namespace trireme
