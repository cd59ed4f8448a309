#include "lib/tokenizer/more_tokens.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

MoreTokens with_tokens(const TokenizerSpec& spec, std::span<const std::string> tokens,
                       std::string_view where) {
  require(spec.kind == TokenizerKind::huggingface,
          "{} has no tokenizer.json, so no tokens can be added to its tokenizer", where);
  const auto tokenizer = make_tokenizer(spec, std::string(where));
  auto files = unpack(spec.bytes, where);
  auto& text = files.at(std::string(tokenizer_files[0]));
  auto json = parse_ordered_json(text);
  auto& added = json["added_tokens"];
  if (added.is_null()) added = OrderedJson::array();
  MoreTokens more;
  auto next = tokenizer->vocab();
  for (const auto& token : tokens) {
    require(!token.empty(), "an empty token cannot be added to the tokenizer of {}", where);
    const auto same = std::ranges::find(tokens, token) - tokens.begin();
    if (static_cast<std::size_t>(same) < more.ids.size()) {
      more.ids.push_back(more.ids[static_cast<std::size_t>(same)]);
      continue;
    }
    if (const auto known = tokenizer->id_of(token)) {
      more.ids.push_back(*known);
      continue;
    }
    more.ids.push_back(next);
    added.push_back({{"id", next++},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  text = json.dump(2) + "\n";
  more.spec = spec;
  more.spec.bytes = pack(files, where);
  return more;
}

}  // namespace trireme
