#include "lib/tokenizer/normalizer.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/tokenizer/json.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

Pattern pattern_in(const nlohmann::json& pattern) {
  if (const auto& text = member(pattern, "String"); !text.is_null()) {
    auto literal = text.get<std::string>();
    require(!literal.empty(), "a pattern is empty");
    return {Regex::literal(literal), literal};
  }
  return {Regex(text_in(pattern, "Regex")), std::nullopt};
}

std::string replaced(std::string_view text, const Regex& pattern, std::string_view by) {
  std::vector<Found> parts;
  pattern.split(text, parts);
  std::string out;
  out.reserve(text.size());
  for (const auto& [span, matches] : parts)
    out.append(matches ? by : text.substr(span.begin, span.end - span.begin));
  return out;
}

Normalizer::Normalizer(const nlohmann::json& normalizer) {
  if (!normalizer.is_null()) add(normalizer);
}

void Normalizer::add(const nlohmann::json& step) {
  const auto type = type_of(step);
  if (type == "Sequence") {
    for (const auto& inner : step.at("normalizers")) add(inner);
  } else if (type == "NFC") {
    steps_.emplace_back(Compose{});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{text_in(step, "prepend")});
  } else if (type == "Replace") {
    steps_.emplace_back(Replace{pattern_in(step.at("pattern")), text_in(step, "content")});
  } else {
    fail(
        "the normalizer {} is not supported. The supported normalizers are NFC, Prepend, Replace "
        "and Sequence",
        type);
  }
}

std::string Normalizer::operator()(std::string_view text, bool begins) const {
  std::string out(text);
  for (const auto& step : steps_) {
    if (std::holds_alternative<Compose>(step)) {
      out = composed(out);
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (begins && !out.empty()) out.insert(0, prepend->text);
    } else {
      const auto& replace = std::get<Replace>(step);
      out = replaced(out, replace.pattern.regex, replace.by);
    }
  }
  return out;
}

bool Normalizer::local() const {
  return std::ranges::all_of(steps_, [](const auto& step) {
    const auto* replace = std::get_if<Replace>(&step);
    if (replace == nullptr) return true;
    const auto& literal = replace->pattern.literal;
    return literal && (*literal == " " || literal->find_first_of(" \n") == std::string::npos);
  });
}

bool Normalizer::only_spaces_change() const {
  return std::ranges::all_of(steps_, [](const auto& step) {
    const auto* replace = std::get_if<Replace>(&step);
    return replace == nullptr || replace->pattern.literal == " ";
  });
}

bool Normalizer::composes() const {
  return std::ranges::any_of(steps_,
                             [](const auto& s) { return std::holds_alternative<Compose>(s); });
}

bool Normalizer::prepends() const {
  return std::ranges::any_of(steps_,
                             [](const auto& s) { return std::holds_alternative<Prepend>(s); });
}

std::string Normalizer::of_space() const {
  return (*this)(" ", false);
}

}  // namespace trireme
