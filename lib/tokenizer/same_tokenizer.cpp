#include "lib/tokenizer/same_tokenizer.hpp"

#include <algorithm>

#include "lib/base/json.hpp"
#include "lib/base/utf8_bytes.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

namespace {

constexpr const char* generation_config = "generation_config.json";

// Returns true if `more` agrees with `less` on all ids of `less`. Ids that have no text in one of
// them, like SentencePiece's control tokens, are not compared. An id that is part of a character
// decodes to that byte in some tokenizers and to U+FFFD in others.
bool extends(const Tokenizer& more, const Tokenizer& less) {
  if (more.vocab() < less.vocab()) return false;
  for (std::int32_t id = 0; id < less.vocab(); ++id) {
    const auto a = with_replacements(more.decode({&id, 1})),
               b = with_replacements(less.decode({&id, 1}));
    if (a != b && !a.empty() && !b.empty()) return false;
  }
  const std::string_view text = "The 42 oars,\n\tof a na\u00efve \u65e5\u672c.";
  return more.encode(text) == less.encode(text);
}

std::string with_ends(Json config, const std::vector<std::int32_t>& ends) {
  config["eos_token_id"] = end_ids(ends);
  return to_lines(config);
}

void add(std::vector<std::int32_t>& ids, std::int32_t id) {
  if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
}

TokenizerSpec packed(const HfFiles& files) {
  return {TokenizerKind::huggingface, pack(files, "a tokenizer")};
}

}  // namespace

bool compatible(const TokenizerSpec& a, std::string_view where_a, const TokenizerSpec& b,
                std::string_view where_b) {
  if (a.kind == TokenizerKind::none || b.kind == TokenizerKind::none) return true;
  if (a == b || a.identity() == b.identity()) return true;
  const auto one = make_tokenizer(a, where_a), other = make_tokenizer(b, where_b);
  return extends(*one, *other) || extends(*other, *one);
}

static TokenizerSpec merged_files(const TokenizerSpec& first, const TokenizerSpec& second) {
  if (first.kind == TokenizerKind::none) return second;
  if (second.kind == TokenizerKind::none) return first;
  if (first.kind == second.kind && first.bytes == second.bytes) return first;
  const auto a = make_tokenizer(first, "a tokenizer"), b = make_tokenizer(second, "a tokenizer");
  if (first.identity() != second.identity()) return b->vocab() > a->vocab() ? second : first;
  auto files = unpack(first.bytes, "a tokenizer");
  const auto others = unpack(second.bytes, "a tokenizer");
  auto ends = a->ends();
  for (const auto id : b->ends()) add(ends, id);
  const auto own = files.find(generation_config);
  const auto other = others.find(generation_config);
  if (own != files.end() && other != others.end() && own->second != other->second) {
    auto all = parse_json(other->second);
    all.update(parse_json(own->second));
    own->second = with_ends(std::move(all), ends);
  }
  files.insert(others.begin(), others.end());
  return packed(files);
}

TokenizerSpec merged(const TokenizerSpec& first, const TokenizerSpec& second) {
  auto both = merged_files(first, second);
  both.chat = first.chat.empty() ? second.chat : first.chat;
  return both;
}

TokenizerSpec with_end(const TokenizerSpec& spec, std::int32_t id) {
  if (spec.kind != TokenizerKind::huggingface) return spec;
  auto ends = make_tokenizer(spec, "a tokenizer")->ends();
  if (std::ranges::find(ends, id) != ends.end()) return spec;
  ends.insert(ends.begin(), id);
  auto files = unpack(spec.bytes, "a tokenizer");
  auto& text = files[generation_config];
  text = with_ends(text.empty() ? Json::object() : parse_json(text), ends);
  auto more = packed(files);
  more.chat = spec.chat;
  return more;
}

}  // namespace trireme
