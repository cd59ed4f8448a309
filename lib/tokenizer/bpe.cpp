#include "lib/tokenizer/bpe.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/tokenizer/byte_alphabet.hpp"
#include "lib/tokenizer/json.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

constexpr std::int32_t table_size = 1 << 14;  // size of of_code_point_: nearly all alphabets
constexpr std::int32_t space_of_sentencepiece = 0x2581;

std::string name_of_byte(std::size_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

std::uint64_t pair_of(std::int32_t a, std::int32_t b) {
  return std::uint64_t{static_cast<std::uint32_t>(a)} << 32 | static_cast<std::uint32_t>(b);
}

void refuse_unsupported(const nlohmann::json& model) {
  const auto& type = member(model, "type");
  // Files from before 2019 have no type.
  const bool bpe = type.is_null() ? model.contains("merges") : type == "BPE";
  require(bpe, "the model {} is not supported; only BPE is",
          type.is_string() ? type.get<std::string>() : "without a type");
  const auto& dropout = member(model, "dropout");
  require(dropout.is_null() || dropout == 0.0,
          "a model with dropout {} gives different ids each time. Set 'dropout' to null",
          dropout.dump());
  for (const auto* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto& value = member(model, key);
    require(value.is_null() || value == "", "a model with {} {} is not supported", key,
            value.dump());
  }
}

}  // namespace

Bpe::Bpe(const nlohmann::json& model, bool byte_level)
    : byte_level_(byte_level),
      byte_fallback_((refuse_unsupported(model), flag_in(model, "byte_fallback"))),
      fuse_unknown_(flag_in(model, "fuse_unk")),
      ignore_merges_(flag_in(model, "ignore_merges")) {
  for (const auto& [token, id] : model.at("vocab").items()) {
    vocabulary_.add(token, id_in(id, fmt::format("id of {}", escaped(token))));
    const auto name = std::string_view(token).find("<0x");
    bytes_join_ = bytes_join_ || (name != std::string_view::npos && token.size() > 6);
  }
  read_merges(model.at("merges"));
  if (const auto& token = member(model, "unk_token"); !token.is_null()) {
    unknown_ = vocabulary_.id_of(token.get<std::string>());
    require(unknown_.has_value(), "unk_token {} is not in the vocabulary", token.dump());
  }
  for (std::size_t b = 0; b < 256; ++b) {
    const auto id = vocabulary_.id_of(
        byte_level ? token_of_bytes({std::string(1, static_cast<char>(b))}) : name_of_byte(b));
    of_byte_[b] = id.value_or(-1);
    all_bytes_ = all_bytes_ && id;
  }
  if (byte_level) {
    require(all_bytes_ || !byte_fallback_,
            "byte_fallback is not supported with a byte-level vocabulary that lacks bytes");
    for (std::int32_t id = 0; ignore_merges_ && id < vocabulary_.size(); ++id) {
      const auto* token = vocabulary_.token(id);
      const auto bytes = token == nullptr ? std::nullopt : bytes_of_token(*token);
      if (bytes) whole_.emplace(*bytes, id);
    }
  } else {
    of_code_point_.assign(table_size, -1);
    for (std::int32_t c = 0; c < table_size; ++c) {
      std::string character;
      append_utf8(character, c);
      of_code_point_[static_cast<std::size_t>(c)] = vocabulary_.id_of(character).value_or(-1);
    }
    read_pairs();
  }
}

void Bpe::read_merges(const nlohmann::json& merges) {
  merges_ = Merges(merges.size());
  std::int32_t rank = 0;
  for (const auto& merge : merges) {
    std::string left, right;
    if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      const auto space = text.find(' ');
      require(space != std::string::npos && text.find(' ', space + 1) == std::string::npos,
              "the merge \"{}\" is not two tokens with a space between", text);
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      require(merge.is_array() && merge.size() == 2, "the merge {} is not two tokens",
              merge.dump());
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    }
    const auto a = vocabulary_.id_of(left), b = vocabulary_.id_of(right),
               both = vocabulary_.id_of(left + right);
    require(a && b && both,
            "the merge of \"{}\" and \"{}\" has a token that is not in the vocabulary", left,
            right);
    merges_.add(*a, *b, {rank++, *both});
  }
}

void Bpe::read_pairs() {
  for (std::int32_t id = 0; id < vocabulary_.size(); ++id) {
    const auto* token = vocabulary_.token(id);
    if (token == nullptr || token->empty()) continue;
    std::string_view rest = *token;
    auto before = first_code_point(rest);
    for (rest.remove_prefix(before.bytes); !rest.empty();) {
      const auto c = first_code_point(rest);
      pairs_.push_back(pair_of(before.value, c.value));
      rest.remove_prefix(c.bytes);
      before = c;
    }
  }
  std::ranges::sort(pairs_);
  pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
}

std::optional<std::int32_t> Bpe::id_of_character(std::int32_t c) const {
  if (c < table_size) {
    const auto id = of_code_point_[static_cast<std::size_t>(c)];
    return id < 0 ? std::nullopt : std::optional(id);
  }
  std::string character;
  append_utf8(character, c);
  return vocabulary_.id_of(character);
}

bool Bpe::separable(std::int32_t a, std::int32_t b) const {
  const bool known = id_of_character(a) && id_of_character(b);
  if (!known) return byte_fallback_ && all_bytes_ && !bytes_join_;
  return !std::ranges::binary_search(pairs_, pair_of(a, b));
}

void Bpe::encode(std::string_view word, WordCache& cache, std::vector<std::int32_t>& ids) const {
  if (byte_level_ || word.size() <= WordCache::longest_word) {
    encode_part(word, cache, ids);
    return;
  }
  // A long word is a text that was not divided into words. It is divided here if its tokens allow
  // it.
  std::string space;
  append_utf8(space, space_of_sentencepiece);
  if (ignore_merges_ && vocabulary_.id_of(word)) {
    encode_part(word, cache, ids);
    return;
  }
  std::size_t begin = 0;
  for (auto at = word.find(space, 1); at != std::string_view::npos; at = word.find(space, at + 1)) {
    const auto before = last_code_point(word.substr(0, at)).value;
    if (!separable(before, space_of_sentencepiece)) continue;
    encode_part(word.substr(begin, at - begin), cache, ids);
    begin = at;
  }
  encode_part(word.substr(begin), cache, ids);
}

void Bpe::encode_part(std::string_view word, WordCache& cache,
                      std::vector<std::int32_t>& ids) const {
  const bool keeps = word.size() <= WordCache::longest_word;
  if (keeps) {
    if (const auto* known = cache.find(word)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
  }
  std::vector<std::int32_t> own;
  if (byte_level_) {
    encode_bytes(word, own);
  } else {
    encode_characters(word, own);
  }
  ids.insert(ids.end(), own.begin(), own.end());
  if (keeps) cache.add(word, own);
}

void Bpe::encode_bytes(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (ignore_merges_) {
    const auto found = whole_.find(std::string(word));
    if (found != whole_.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  bool behind_unknown = false;
  for (const char c : word) {
    const auto id = of_byte_[static_cast<unsigned char>(c)];
    if (id >= 0) {
      ids.push_back(id);
    } else if (unknown_ && !(behind_unknown && fuse_unknown_)) {
      ids.push_back(*unknown_);
    }
    behind_unknown = id < 0;
  }
  merges_.apply(ids);
}

void Bpe::encode_characters(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (ignore_merges_) {
    if (const auto id = vocabulary_.id_of(word)) {
      ids.push_back(*id);
      return;
    }
  }
  // An unknown character is written before the next character, known or unknown. Bytes between the
  // two therefore come first, as in the reference implementation.
  bool waits = false;
  while (!word.empty()) {
    const auto c = first_code_point(word);
    const auto bytes = word.substr(0, c.bytes);
    word.remove_prefix(c.bytes);
    const auto of = [&](char b) { return of_byte_[static_cast<unsigned char>(b)]; };
    if (const auto id = id_of_character(c.value)) {
      if (waits) ids.push_back(*unknown_);
      waits = false;
      ids.push_back(*id);
    } else if (byte_fallback_ && std::ranges::all_of(bytes, [&](char b) { return of(b) >= 0; })) {
      for (const char b : bytes) ids.push_back(of(b));
    } else if (unknown_) {
      if (waits && !fuse_unknown_) ids.push_back(*unknown_);
      waits = true;
    }
  }
  if (waits) ids.push_back(*unknown_);
  merges_.apply(ids);
}

}  // namespace trireme
