#include "lib/keys/key.hpp"

#include <algorithm>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

bool is_array(ValueKind kind) {
  return kind >= ValueKind::integers;
}

std::string bound_text(const Key& key, double bound) {
  const bool whole = key.kind == ValueKind::integer || key.kind == ValueKind::integers;
  return whole ? std::to_string(static_cast<std::int64_t>(bound)) : number_text(bound);
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

}  // namespace

bool is_unset(const Key& key, const KeyValue& value) {
  return key.zero_is_unset && (value == KeyValue(std::int64_t{0}) || value == KeyValue(0.0));
}

std::string key_in_row(std::string_view path, std::size_t row) {
  return row == 0 ? std::string(path) : fmt::format("{}#{}", path, row);
}

std::string kind_text(const Key& key) {
  switch (key.kind) {
    case ValueKind::flag:
      return "true or false";
    case ValueKind::integer:
      return "a whole number";
    case ValueKind::real:
      return "a number";
    case ValueKind::duration:
      return "seconds or \"hh:mm:ss\"";
    case ValueKind::text:
      return "a text";
    case ValueKind::path:
      return "a path";
    case ValueKind::choice:
      return "a text";
    case ValueKind::integers:
      return "an array of whole numbers";
    case ValueKind::reals:
      if (key.ascending) return "an array of numbers, ascending";
      return key.count > 0 ? fmt::format("an array of {} numbers", key.count)
                           : "an array of numbers";
    case ValueKind::texts:
      return "an array of texts";
    case ValueKind::paths:
      return "a path or an array of paths";
    case ValueKind::fraction_or_paths:
      return "a fraction, a path or an array of paths";
  }
  return {};
}

std::string range_text(const Key& key) {
  if (!key.choices.empty()) {
    std::vector<std::string> words;
    for (const auto& name : key.choices) words.push_back(to_toml(name));
    if (!key.automatic.empty()) words.insert(words.begin(), to_toml(Automatic{}));
    if (!key.prefix.empty()) words.push_back(to_toml(key.prefix + "DIR"));
    return joined(words);
  }
  std::string text;
  if (key.range) {
    const Interval& r = *key.range;
    const std::string least = bound_text(key, r.min), most = bound_text(key, r.max);
    if (!r.above_min && !r.below_max && r.max < 0x1p53) {
      text = fmt::format("{} to {}", least, most);
    } else {
      text = fmt::format("{} {}", r.above_min ? "above" : "at least", least);
      if (r.max < 0x1p53) text += fmt::format(", {} {}", r.below_max ? "below" : "at most", most);
    }
  }
  std::vector<std::string> words;
  if (!key.automatic.empty()) words.push_back(to_toml(Automatic{}));
  if (!key.word.empty()) words.push_back(to_toml(key.word));
  if (!text.empty()) words.push_back(std::move(text));
  return joined(words);
}

std::vector<KeySection> table_of(std::vector<KeySection> sections) {
  for (auto& section : sections)
    for (auto& key : section.keys) key.section = section.name;
  return sections;
}

const KeySection* find_section(const std::vector<KeySection>& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &KeySection::name);
  return found == table.end() ? nullptr : &*found;
}

const Key* find_key(const KeySection& section, std::string_view name) {
  const auto found = std::ranges::find(section.keys, name, &Key::name);
  return found == section.keys.end() ? nullptr : &*found;
}

RawValue raw_from_text(const Key& key, std::string_view text) {
  const auto trimmed = [](std::string_view t) {
    const auto first = t.find_first_not_of(" \t");
    if (first == std::string_view::npos) return std::string_view{};
    return t.substr(first, t.find_last_not_of(" \t") - first + 1);
  };
  const auto scalar = [&](std::string_view t) {
    RawValue raw;
    std::int64_t whole = 0;
    double real = 0;
    const bool real_kind = key.kind == ValueKind::real || key.kind == ValueKind::reals ||
                           key.kind == ValueKind::duration ||
                           key.kind == ValueKind::fraction_or_paths;
    const bool whole_kind = key.kind == ValueKind::integer || key.kind == ValueKind::integers;
    if (key.kind == ValueKind::flag && (t == "true" || t == "false")) {
      raw.data = t == "true";
    } else if (whole_kind && read_number(t, whole)) {
      raw.data = whole;
    } else if ((whole_kind || real_kind) && read_number(t, real)) {
      raw.data = real;
    } else {
      const bool quotes =
          t.size() >= 2 && t.front() == t.back() && (t.front() == '"' || t.front() == '\'');
      raw.data = std::string(quotes ? t.substr(1, t.size() - 2) : t);
    }
    return raw;
  };
  text = trimmed(text);
  if (!is_array(key.kind) || text.size() < 2 || text.front() != '[' || text.back() != ']') {
    RawValue one = scalar(text);
    const auto* word = std::get_if<std::string>(&one.data);
    const bool automatic = !key.automatic.empty() && word && *word == "auto";
    if (!is_array(key.kind) || automatic || key.kind == ValueKind::fraction_or_paths) return one;
    RawValue array;
    array.data = std::vector<RawValue>{std::move(one)};
    return array;
  }
  std::vector<RawValue> elements;
  std::string_view rest = trimmed(text.substr(1, text.size() - 2));
  while (!rest.empty()) {
    char quote = 0;
    std::size_t end = 0;
    for (; end < rest.size() && (quote != 0 || rest[end] != ','); ++end) {
      if (quote == 0 && (rest[end] == '"' || rest[end] == '\'')) {
        quote = rest[end];
      } else if (rest[end] == quote) {
        quote = 0;
      }
    }
    elements.push_back(scalar(trimmed(rest.substr(0, end))));
    rest = end < rest.size() ? trimmed(rest.substr(end + 1)) : std::string_view{};
  }
  RawValue array;
  array.data = std::move(elements);
  return array;
}

}  // namespace trireme
