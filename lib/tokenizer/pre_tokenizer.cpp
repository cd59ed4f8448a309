#include "lib/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/tokenizer/json.hpp"
#include "lib/tokenizer/split_patterns.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

Delimiter delimiter_named(const std::string& name) {
  constexpr std::pair<std::string_view, Delimiter> names[] = {
      {"Removed", Delimiter::removed},
      {"Isolated", Delimiter::isolated},
      {"MergedWithPrevious", Delimiter::previous},
      {"MergedWithNext", Delimiter::next},
      {"Contiguous", Delimiter::contiguous}};
  for (const auto& [known, delimiter] : names)
    if (known == name) return delimiter;
  fail("the behavior {} of the pre-tokenizer Split is not supported", name);
}

std::string_view of(const Words& words, TextSpan span) {
  return std::string_view(words.text).substr(span.begin, span.end - span.begin);
}

// Puts `prefix` before each word for which wants(word, position) is true.
template <class Wants>
void prepend_to(Words& words, std::string_view prefix, Wants wants) {
  std::string text;
  text.reserve(words.text.size() + prefix.size());
  for (auto& span : words.spans) {
    const auto word = of(words, span);
    const std::size_t begin = text.size();
    if (wants(word, span.begin)) text.append(prefix);
    text.append(word);
    span = {begin, text.size()};
  }
  words.text = std::move(text);
}

}  // namespace

// Joins matches with the parts before or behind them. As in normalizer.rs of tokenizers, a match
// that follows a match remains a separate part if matches are merged with the previous or the next
// part.
void join(const std::vector<Found>& parts, Delimiter delimiter, std::vector<TextSpan>& spans) {
  const std::size_t first = spans.size();
  const auto add = [&](TextSpan span) { spans.push_back(span); };
  bool before = false;
  if (delimiter == Delimiter::next) {
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->matches && !before && spans.size() > first) {
        spans.back().begin = part->span.begin;
      } else {
        add(part->span);
      }
      before = part->matches;
    }
    std::reverse(spans.begin() + static_cast<std::ptrdiff_t>(first), spans.end());
  } else {
    for (const auto& [span, matches] : parts) {
      const bool joins = delimiter == Delimiter::previous     ? matches && !before
                         : delimiter == Delimiter::contiguous ? matches == before
                                                              : false;
      if (joins && spans.size() > first) {
        spans.back().end = span.end;
      } else if (!matches || delimiter != Delimiter::removed) {
        add(span);
      }
      before = matches;
    }
  }
  std::erase_if(spans, [](TextSpan span) { return span.begin == span.end; });
}

PreTokenizer::PreTokenizer(const nlohmann::json& pre_tokenizer, const Normalizer& normalizer)
    : of_space_(normalizer.of_space()) {
  if (!pre_tokenizer.is_null()) add(pre_tokenizer, normalizer);
}

void PreTokenizer::add(const nlohmann::json& step, const Normalizer& normalizer) {
  const auto type = type_of(step);
  require(!byte_level_, "the pre-tokenizer {} is not supported after ByteLevel", type);
  if (type == "Sequence") {
    for (const auto& inner : step.at("pretokenizers")) add(inner, normalizer);
  } else if (type == "ByteLevel") {
    if (flag_in(step, "add_prefix_space", true)) steps_.emplace_back(PrefixSpace{});
    if (flag_in(step, "use_regex", true)) {
      steps_.emplace_back(
          Split{{Regex(std::string(gpt2_pattern)), std::nullopt}, Delimiter::isolated, false});
      cuts_ = of_space_ == " " && cuts_ != Cuts::never ? Cuts::at_spaces : Cuts::never;
    }
    byte_level_ = true;
  } else if (type == "Split") {
    add_split(step, normalizer);
  } else if (type == "Metaspace") {
    const auto& scheme = member(step, "prepend_scheme");
    const auto name = scheme.is_null()
                          ? flag_in(step, "add_prefix_space", true) ? "always" : "never"
                          : scheme.get<std::string>();
    const auto prepend = name == "always"  ? Metaspace::Prepend::always
                         : name == "first" ? Metaspace::Prepend::first
                                           : Metaspace::Prepend::never;
    require(!text_in(step, "replacement").empty(),
            "the pre-tokenizer Metaspace has an empty replacement for spaces");
    of_space_ = of_space_ == " " ? text_in(step, "replacement") : of_space_;
    steps_.emplace_back(
        Metaspace{text_in(step, "replacement"), prepend, flag_in(step, "split", true)});
  } else if (type == "Digits") {
    steps_.emplace_back(Digits{flag_in(step, "individual_digits")});
  } else {
    fail(
        "the pre-tokenizer {} is not supported. The supported pre-tokenizers are ByteLevel, Split, "
        "Metaspace, Digits and Sequence",
        type);
  }
}

void PreTokenizer::add_split(const nlohmann::json& step, const Normalizer& normalizer) {
  Split split{pattern_in(step.at("pattern")), delimiter_named(text_in(step, "behavior")),
              flag_in(step, "invert")};
  // The normalizer has already replaced all spaces, so this step would find none.
  if (split.pattern.literal == " " && of_space_ != " " && normalizer.only_spaces_change() &&
      !split.invert)
    return;
  const auto& regex = member(step.at("pattern"), "Regex");
  const bool known = regex.is_string() && splits_at_spaces(regex.get<std::string>()) &&
                     of_space_ == " " && !split.invert && split.delimiter == Delimiter::isolated;
  cuts_ = known && cuts_ != Cuts::never ? Cuts::at_spaces : Cuts::never;
  steps_.emplace_back(std::move(split));
}

void PreTokenizer::operator()(Words& words, bool first, bool begins) const {
  for (const auto& step : steps_) {
    if (const auto* split = std::get_if<Split>(&step)) {
      apply(*split, words);
    } else if (std::holds_alternative<PrefixSpace>(step)) {
      prepend_to(words, " ", [&](std::string_view word, std::size_t at) {
        return (begins || at > 0) && !word.starts_with(' ');
      });
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      apply(*metaspace, words, first, begins);
    } else {
      apply(std::get<Digits>(step), words);
    }
  }
}

void PreTokenizer::apply(const Split& split, Words& words) {
  std::vector<TextSpan> spans;
  std::vector<Found> parts;
  for (const auto whole : words.spans) {
    parts.clear();
    split.pattern.regex.split(of(words, whole), parts);
    for (auto& [span, matches] : parts) {
      span = {span.begin + whole.begin, span.end + whole.begin};
      matches = matches != split.invert;
    }
    if (split.delimiter == Delimiter::isolated) {
      for (const auto& part : parts)
        if (part.span.begin != part.span.end) spans.push_back(part.span);
    } else {
      join(parts, split.delimiter, spans);
    }
  }
  words.spans = std::move(spans);
}

void PreTokenizer::apply(const Metaspace& m, Words& words, bool first, bool begins) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 2);
  std::vector<TextSpan> spans;
  for (const auto span : words.spans) {
    const std::size_t begin = text.size();
    const auto word = of(words, span);
    const bool has_one = word.starts_with(' ') || word.starts_with(m.replacement);
    const bool wants = m.prepend == Metaspace::Prepend::always  ? begins || span.begin > 0
                       : m.prepend == Metaspace::Prepend::first ? first && span.begin == 0
                                                                : false;
    if (wants && !has_one) text.append(m.replacement);
    for (const char c : word) {
      if (c == ' ') {
        text.append(m.replacement);
      } else {
        text.push_back(c);
      }
    }
    if (!m.split) {
      spans.push_back({begin, text.size()});
      continue;
    }
    // Each replacement begins a word.
    std::size_t word_begin = begin;
    for (auto at = text.find(m.replacement, begin); at != std::string::npos;
         at = text.find(m.replacement, at + m.replacement.size())) {
      if (at > word_begin) spans.push_back({word_begin, at});
      word_begin = at;
    }
    if (text.size() > word_begin) spans.push_back({word_begin, text.size()});
  }
  words.text = std::move(text);
  words.spans = std::move(spans);
}

void PreTokenizer::apply(const Digits& digits, Words& words) {
  std::vector<TextSpan> spans;
  for (const auto whole : words.spans) {
    std::size_t begin = whole.begin;
    bool in_number = false;
    for (std::size_t at = whole.begin; at < whole.end;) {
      const auto c = first_code_point(std::string_view(words.text).substr(at));
      const bool numeric = is_numeric(c.value);
      if (at > begin && (numeric != in_number || (numeric && digits.individual))) {
        spans.push_back({begin, at});
        begin = at;
      }
      in_number = numeric;
      at += c.bytes;
    }
    if (whole.end > begin) spans.push_back({begin, whole.end});
  }
  words.spans = std::move(spans);
}

}  // namespace trireme
