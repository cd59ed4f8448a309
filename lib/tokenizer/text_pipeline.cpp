#include "lib/tokenizer/text_pipeline.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/vendor_text.hpp"
#include "lib/tokenizer/byte_alphabet.hpp"
#include "lib/tokenizer/json.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

std::vector<AddedToken> checked_added(const nlohmann::json& all, const Bpe& bpe) {
  auto tokens = added_tokens_in(member(all, "added_tokens"));
  // Tokens that the vocabulary lacks get the next ids after it, in order, whatever ids the file
  // has.
  auto next = static_cast<std::int32_t>(all.at("model").at("vocab").size());
  for (const auto& token : tokens) {
    const auto known = bpe.vocabulary().id_of(token.text);
    require(token.id == known.value_or(next),
            "the added token \"{}\" has the id {}, but the tokenizers library gives it {}",
            token.text, token.id, known.value_or(next));
    if (token.id >= next) next = token.id + 1;
  }
  return tokens;
}

}  // namespace

struct TextPipeline::Parsed {
  nlohmann::json all;
};

// Throws Error for values of a wrong type and for missing keys.
TextPipeline::TextPipeline(std::string_view tokenizer_json) try
    : TextPipeline(Parsed{parse_json(tokenizer_json)}) {
} catch (const nlohmann::json::exception& e) {
  fail("it is not a valid tokenizer.json ({})", without_tag(e.what()));
}

TextPipeline::TextPipeline(const Parsed& file)
    : normalizer_(member(file.all, "normalizer")),
      pre_tokenizer_(member(file.all, "pre_tokenizer"), normalizer_),
      bpe_(file.all.at("model"), pre_tokenizer_.byte_level()),
      decoder_(member(file.all, "decoder")),
      added_(checked_added(file.all, bpe_)),
      finders_{finder_of(false, Found::all), finder_of(true, Found::all)},
      plain_finders_{finder_of(false, Found::without_special),
                     finder_of(true, Found::without_special)},
      finds_normalized_(std::ranges::any_of(added_, &AddedToken::normalized)),
      vocab_(bpe_.vocabulary().size()) {
  for (const auto& token : added_) {
    vocab_ = std::max(vocab_, token.id + 1);
    added_by_id_.emplace(token.id, &token);
    added_by_text_.emplace(token.text, &token);
  }
  read_prefix(member(file.all, "post_processor"));
  prepare_cuts();
}

TokenFinder TextPipeline::finder_of(bool normalized, Found found) const {
  std::vector<const AddedToken*> tokens;
  // If two tokens have the same text, the special one comes first.
  for (const bool special : {true, false})
    for (const auto& token : added_)
      if ((!special || found == Found::all) && token.normalized == normalized &&
          token.special == special)
        tokens.push_back(&token);
  return {tokens, [&](const AddedToken& token) {
            return normalized ? normalizer_(token.text, true) : token.text;
          }};
}

void TextPipeline::read_prefix(const nlohmann::json& post) {
  if (post.is_null()) return;
  const auto type = type_of(post);
  if (type == "Sequence") {
    for (const auto& inner : post.at("processors")) read_prefix(inner);
  } else if (type == "TemplateProcessing") {
    for (const auto& piece : post.at("single")) {
      if (piece.contains("Sequence")) break;
      const auto name = text_in(piece.at("SpecialToken"), "id");
      for (const auto& id : post.at("special_tokens").at(name).at("ids"))
        prefix_.push_back(id_in(id, "ids of the post-processor"));
    }
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    prefix_.push_back(id_in(post.at("cls").at(1), "cls of the post-processor"));
  } else {
    require(type == "ByteLevel",
            "the post-processor {} is not supported. The supported post-processors are "
            "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and Sequence",
            type);
  }
  for (const auto id : prefix_)
    require(id >= 0 && id < vocab_,
            "the post-processor's id {} is not in the vocabulary of {} tokens", id, vocab_);
}

std::optional<std::int32_t> TextPipeline::id_of(std::string_view token) const {
  const auto found = added_by_text_.find(token);
  return found != added_by_text_.end() ? std::optional(found->second->id)
                                       : bpe_.vocabulary().id_of(token);
}

std::vector<std::string> TextPipeline::special_tokens() const {
  std::vector<std::string> texts;
  for (const auto& token : added_)
    if (token.special) texts.push_back(token.text);
  return texts;
}

std::optional<std::size_t> TextPipeline::text_bytes(std::int32_t id) const {
  const auto added = added_by_id_.find(id);
  if (added != added_by_id_.end()) return added->second->text.size();
  const auto* token = bpe_.vocabulary().token(id);
  if (!token || id == bpe_.unknown()) return std::nullopt;
  if (pre_tokenizer_.byte_level()) {
    const auto bytes = bytes_of_token(*token);
    return bytes ? std::optional(bytes->size()) : std::nullopt;
  }
  if (bpe_.byte_fallback() && token->size() == 6 && token->starts_with("<0x")) return 1;
  const auto& space = pre_tokenizer_.of_space();
  if (space.empty()) return std::nullopt;
  return bytes_with(space, *token);
}

void TextPipeline::encode(std::string_view text, bool continues,
                          std::vector<std::int32_t>& ids) const {
  if (well_formed_bytes(text) != text.size()) {
    encode(with_replacements(text), continues, ids);
    return;
  }
  with_scratch([&](Scratch& scratch) {
    encode_text(text, finders_, continues ? Place::inside : Place::start, scratch, ids);
  });
}

std::vector<std::size_t> TextPipeline::encode_marked(std::string_view text,
                                                     std::span<const TextSpan> marked,
                                                     std::vector<std::int32_t>& ids) const {
  std::vector<std::size_t> places;
  const auto token_at = [&](std::size_t i) -> const AddedToken* {
    if (i >= marked.size()) return nullptr;
    const auto token =
        added_by_text_.find(text.substr(marked[i].begin, marked[i].end - marked[i].begin));
    return token == added_by_text_.end() ? nullptr : token->second;
  };
  with_scratch([&](Scratch& scratch) {
    std::size_t at = 0;
    const AddedToken* before = nullptr;
    for (std::size_t i = 0; i <= marked.size(); ++i) {
      const auto* const token = token_at(i);
      const auto end = i < marked.size() ? marked[i].begin : text.size();
      auto run = text.substr(at, end - at);
      if (before && before->rstrip) run.remove_prefix(spaces_at_start(run));
      if (token && token->lstrip) run = run.substr(0, without_spaces_at_end(run));
      encode_text(run, plain_finders_, at == 0 ? Place::start : Place::behind_token, scratch, ids);
      if (i == marked.size()) break;
      const auto id = id_of(text.substr(marked[i].begin, marked[i].end - marked[i].begin));
      expect(id.has_value(), "marked text is a token");
      places.push_back(ids.size());
      ids.push_back(*id);
      at = marked[i].end;
      before = token;
    }
  });
  return places;
}

template <class Work>
void TextPipeline::with_scratch(const Work& work) const {
  std::unique_ptr<Scratch> scratch;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      scratch = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!scratch) scratch = std::make_unique<Scratch>();
  work(*scratch);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(scratch));
}

void TextPipeline::encode_text(std::string_view text, const Finders& finders, Place place,
                               Scratch& scratch, std::vector<std::int32_t>& ids) const {
  std::vector<TextSegment> segments;
  finders.as_written.split(text, segments);
  for (const auto& [span, id] : segments) {
    const bool at_start = span.begin == 0;
    if (id) {
      ids.push_back(*id);
    } else {
      encode_segment(text.substr(span.begin, span.end - span.begin), finders.normalized,
                     at_start && place == Place::start, !at_start || place != Place::inside,
                     scratch, ids);
    }
  }
}

void TextPipeline::encode_segment(std::string_view text, const TokenFinder& normalized, bool first,
                                  bool begins, Scratch& scratch,
                                  std::vector<std::int32_t>& ids) const {
  std::string changed;
  if (!normalizer_.empty()) {
    changed = normalizer_(text, begins);
    text = changed;
  }
  if (!finds_normalized_) {
    encode_normalized(text, first, begins, scratch, ids);
    return;
  }
  std::vector<TextSegment> segments;
  normalized.split(text, segments);
  for (const auto& [span, id] : segments) {
    const bool at_start = span.begin == 0;
    if (id) {
      ids.push_back(*id);
    } else {
      encode_normalized(text.substr(span.begin, span.end - span.begin), at_start && first,
                        !at_start || begins, scratch, ids);
    }
  }
}

void TextPipeline::encode_normalized(std::string_view text, bool first, bool begins,
                                     Scratch& scratch, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  auto& words = scratch.words;
  words.text = text;
  words.spans.assign(1, {0, text.size()});
  pre_tokenizer_(words, first, begins);
  const std::string_view all = words.text;
  for (const auto span : words.spans)
    bpe_.encode(all.substr(span.begin, span.end - span.begin), scratch.cache, ids);
}

std::string TextPipeline::decode(std::span<const std::int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const auto id : ids) {
    const auto added = added_by_id_.find(id);
    if (added != added_by_id_.end()) {
      tokens.push_back(added->second->text);
    } else if (const auto* token = bpe_.vocabulary().token(id)) {
      tokens.push_back(*token);
    }
  }
  return decoder_(std::move(tokens));
}

}  // namespace trireme
