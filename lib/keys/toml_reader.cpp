#include "lib/keys/toml_reader.hpp"

// Its parser asserts what it is about to report, on "[.]" for one; a deck must never abort a run.
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>

#include "lib/base/error.hpp"

namespace trireme {
namespace {

SourceLocation place_of(const toml::source_region& region) {
  return {static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

std::string kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::date:
      return "a date";
    case toml::node_type::time:
      return "a time";
    default:
      return "a date and time";
  }
}

struct Source {
  std::string_view text;
  const std::string& name;
};

// What the library reads as zero without a word, though a digit says that it is none.
void require_zero(const Source& source, SourceLocation at) {
  std::string_view rest = source.text;
  for (int line = 1; line < at.line; ++line) rest.remove_prefix(rest.find('\n') + 1);
  for (int column = 1; column < at.column && !rest.empty(); ++column) {
    do rest.remove_prefix(1);
    while (!rest.empty() && (rest[0] & 0xC0) == 0x80);  // columns count characters
  }
  const auto written = rest.substr(0, rest.find_first_of(" \t\r\n,]}#"));
  require(written.substr(0, written.find_first_of("eE")).find_first_of("123456789") ==
              std::string_view::npos,
          "{}:{}:{}: {} is too small for a double: write 0 or a larger number", source.name,
          at.line, at.column, written);
}

RawValue raw_value(const toml::node& node, const Source& source) {
  RawValue raw{false, place_of(node.source())};
  if (const auto* flag = node.as_boolean()) {
    raw.data = flag->get();
  } else if (const auto* whole = node.as_integer()) {
    raw.data = whole->get();
  } else if (const auto* real = node.as_floating_point()) {
    raw.data = real->get();
    if (real->get() == 0) require_zero(source, raw.place);
  } else if (const auto* text = node.as_string()) {
    raw.data = text->get();
  } else if (const auto* array = node.as_array()) {
    std::vector<RawValue> elements;
    for (const auto& element : *array) elements.push_back(raw_value(element, source));
    raw.data = std::move(elements);
  } else {
    raw.data = ForeignValue{kind_of(node)};
  }
  return raw;
}

RawEntry raw_entry(const toml::key& key, const toml::node& node, const Source& source) {
  return {std::string(key.str()), place_of(key.source()), raw_value(node, source)};
}

RawSection raw_section(const toml::key& name, const toml::table& table, bool repeated,
                       const Source& source) {
  RawSection section{std::string(name.str()), place_of(table.source()), repeated, {}};
  if (section.place.line == 0) section.place = place_of(name.source());
  for (const auto& [key, node] : table) section.entries.push_back(raw_entry(key, node, source));
  return section;
}

bool before(const SourceLocation& a, const SourceLocation& b) {
  return a.line != b.line ? a.line < b.line : a.column < b.column;
}

// The library calls itself once for each part of a key, which a hundred thousand overflow.
void require_short_keys(std::string_view text, const std::string& source) {
  constexpr int most = 1000;
  int line = 1, parts = 1;
  for (const char c : text) {
    if (c == '.')
      require(++parts <= most, "{}:{}: a key has more than {} parts", source, line, most);
    if (std::string_view("=,{}[]#\n").find(c) != std::string_view::npos) parts = 1;
    if (c == '\n') ++line;
  }
}

// The library reports the place after a duplicate key; users look for the key itself.
[[noreturn]] void refuse(std::string_view text, const std::string& source,
                         const toml::parse_error& e) {
  SourceLocation at = place_of(e.source());
  const std::string_view what = e.description();
  const auto open = what.find('\''), close = what.rfind('\'');
  if (what.find("redefine existing") == std::string_view::npos || open == close) {
    fail("{}:{}:{}: {}", source, at.line, at.column, what);
  }
  for (int line = 1; line < at.line; ++line) text.remove_prefix(text.find('\n') + 1);
  at.column = 1 + static_cast<int>(std::min(text.find_first_not_of(" \t"), text.size()));
  fail("{}:{}:{}: {} is given a second time; keep one of the two", source, at.line, at.column,
       what.substr(open, close + 1 - open));
}

}  // namespace

std::vector<RawSection> read_toml(std::string_view text, const std::string& source) {
  require_short_keys(text, source);
  toml::table root;
  try {
    root = toml::parse(text, source);
  } catch (const toml::parse_error& e) {
    refuse(text, source, e);
  }
  const Source from{text, source};
  std::vector<RawSection> sections;
  RawSection top;
  for (const auto& [key, node] : root) {
    if (const auto* table = node.as_table()) {
      sections.push_back(raw_section(key, *table, false, from));
    } else if (const auto* array = node.as_array(); array && array->is_array_of_tables()) {
      for (const auto& row : *array)
        sections.push_back(raw_section(key, *row.as_table(), true, from));
    } else {
      top.entries.push_back(raw_entry(key, node, from));
    }
  }
  if (!top.entries.empty()) sections.push_back(std::move(top));
  // The library keeps keys in alphabetical order.
  for (auto& s : sections) {
    std::stable_sort(s.entries.begin(), s.entries.end(),
                     [](const auto& a, const auto& b) { return before(a.place, b.place); });
  }
  std::stable_sort(sections.begin(), sections.end(),
                   [](const auto& a, const auto& b) { return before(a.place, b.place); });
  return sections;
}

}  // namespace trireme
