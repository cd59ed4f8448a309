// Descriptions of keys, for the terminal and for the reference in docs/.
#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/deck/familiar.hpp"
#include "lib/deck/table.hpp"

namespace trireme {
namespace {

std::string described(const Key& key) {
  const std::string plain = default_text(key), range = range_text(key);
  std::string text = fmt::format("{}{}\n  {}\n", key.path(),
                                 key.required    ? "  (required)"
                                 : plain.empty() ? "  (not given)"
                                                 : "  (default " + plain + ")",
                                 key.meaning);
  text += fmt::format("  type: {}{}\n", kind_text(key),
                      key.unit.empty() ? "" : fmt::format(" [{}]", key.unit));
  if (!range.empty()) text += fmt::format("  values: {}\n", range);
  if (!key.automatic.empty()) text += fmt::format("  auto: {}\n", key.automatic);
  if (!key.word.empty()) text += fmt::format("  {}: {}\n", key.word, key.of_word);
  if (!key.example.empty()) text += fmt::format("  example: {} = {}\n", key.name, key.example);
  return text;
}

std::string described(const KeySection& section) {
  std::string text = fmt::format("{}  {}\n", section.header(), section.meaning);
  for (const auto& key : section.keys) text += "\n" + described(key);
  return text;
}

// Returns text for a table cell. Escapes the characters that have a meaning there, like |, which
// would end the cell.
std::string cell(std::string text) {
  for (std::size_t i = 0; (i = text.find_first_of("|<*", i)) != std::string::npos; i += 2) {
    text.insert(i, 1, '\\');
  }
  return text;
}

std::string code(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

std::string meaning_cell(const Key& key) {
  std::string text = cell(key.meaning);
  if (!key.automatic.empty()) text += ". `\"auto\"`: " + cell(key.automatic);
  if (!key.word.empty()) text += fmt::format(". `{}`: {}", to_toml(key.word), cell(key.of_word));
  return text;
}

}  // namespace

std::string describe_key(std::string_view name) {
  if (const Key* key = find_key(name)) return described(*key);
  if (const KeySection* section = find_section(name)) return described(*section);
  std::string text;
  for (const auto& section : deck_sections()) {
    if (const Key* key = find_key(section, name)) {
      text += (text.empty() ? "" : "\n") + described(*key);
    }
  }
  if (!text.empty()) return text;
  if (const auto* familiar = find_familiar(name)) {
    const Key* key = find_key(familiar->key);
    return hint_of(*familiar) + "\n" + (key ? "\n" + described(*key) : "");
  }
  std::vector<std::string> known = deck_key_paths();
  for (const auto& section : deck_sections()) {
    known.push_back(section.name);
    for (const auto& key : section.keys) known.push_back(key.name);
  }
  const std::string near = nearest_name(name, known);
  fail("there is no deck key or section '{}'{}", name,
       near.empty() ? "; `trireme deck` prints all" : fmt::format("; did you mean '{}'?", near));
}

std::string deck_reference_markdown() {
  std::string text =
      "# Deck reference\n\n"
      "<!-- Generated from the table in lib/deck; change it there. -->\n\n"
      "A deck is a TOML file. Paths are relative to the working directory. `${NAME}` in a text is\n"
      "replaced by the value of that environment variable; write `$${` for a literal `${`. You "
      "can\n"
      "override any key on the command line with `section.key=value`. Whole numbers may be "
      "written\n"
      "as `1e5` or `10_000`. If a key accepts `\"auto\"` but not 0, 0 means `\"auto\"`.\n";
  for (const auto& section : deck_sections()) {
    text += fmt::format("\n## {}\n\n{}\n\n", section.header(), section.meaning);
    text += "| key | type | unit | default | values | meaning |\n|---|---|---|---|---|---|\n";
    for (const auto& key : section.keys) {
      const std::string plain = default_text(key);
      text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", key.name, kind_text(key), key.unit,
                          key.required ? "required" : code(plain), cell(range_text(key)),
                          meaning_cell(key));
    }
  }
  return text;
}

}  // namespace trireme
