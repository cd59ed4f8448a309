// Conversion of decks to text: the effective deck and the template.
#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/deck/table.hpp"
#include "lib/keys/commented.hpp"

namespace trireme {
namespace {

std::string headline(const KeySection& section) {
  return fmt::format("{}  # {}\n", section.header(), section.meaning);
}

// Returns the comment for a key: its choices, meaning and unit, and what "auto" and other words
// mean.
std::string comment_of(const Key& key) {
  std::string text;
  for (const auto& choice : key.choices) {
    if (!choice.empty()) text += (text.empty() ? "" : " | ") + choice;
  }
  text += (text.empty() ? "" : ": ") + key.meaning;
  if (!key.unit.empty()) text += fmt::format(" [{}]", key.unit);
  if (!key.automatic.empty()) text += fmt::format("; auto: {}", key.automatic);
  if (!key.word.empty()) text += fmt::format("; {}: {}", key.word, key.of_word);
  return text;
}

CommentedLine dumped(const Key& key, const Deck& deck, std::size_t row) {
  const KeyValue value = key.access.get(deck, row);
  if (is_unset(key, value)) {
    return {fmt::format("# {} = {}", key.name, key.example),
            "(not given; the value is an example) " + comment_of(key)};
  }
  return {fmt::format("{} = {}", key.name, to_toml(value)), comment_of(key)};
}

CommentedLine offered(const Key& key) {
  const std::string plain = default_text(key);
  const bool has_example = (plain.empty() || plain == "[]") && !key.example.empty();
  const auto* const what = !has_example    ? ""
                           : key.required  ? "(required; the value is an example) "
                           : plain.empty() ? "(an example; not given by default) "
                                           : "(an example; the default is []) ";
  return {fmt::format("{}{} = {}", key.required ? "" : "# ", key.name,
                      has_example ? key.example : plain),
          what + comment_of(key)};
}

}  // namespace

static std::string dumped(const KeySection& section, const Deck& deck) {
  std::string text;
  for (std::size_t row = 0; row < section.rows(deck); ++row) {
    std::vector<CommentedLine> lines;
    for (const auto& key : section.keys) lines.push_back(dumped(key, deck, row));
    text += "\n" + headline(section) + in_columns(lines);
  }
  return text;
}

std::string dump_deck(const Deck& deck) {
  std::string text =
      fmt::format("# Effective deck of {}: every key with its value.\n", escaped(deck.name));
  for (const auto& section : deck_sections()) text += dumped(section, deck);
  return text;
}

static Deck deck_with(const ModelDescription& d) {
  Deck deck;
  deck.model = d.model;
  deck.adapter = d.adapter;
  deck.data.context = d.context;
  deck.init_from = d.init_from;
  return deck;
}

ModelDescription description_of(const Deck& deck) {
  return {deck.model, deck.adapter, deck.data.context, deck.init_from};
}

std::string dump_model(const ModelDescription& description) {
  const auto deck = deck_with(description);
  std::string text = "# A model: every key with its value.\n";
  for (const auto* name : {"model", "adapter", "adapter_rank"})
    text += dumped(*find_section(name), deck);
  return text;
}

std::string deck_template() {
  std::string text =
      "# A Trireme deck. Lines that start with # show defaults. Where the comment begins with\n"
      "# \"(an example\", the value is not the default. Remove the # to set a value. ${NAME} in a "
      "text is\n"
      "# replaced by the environment variable NAME.\n";
  for (const auto& section : deck_sections()) {
    std::vector<CommentedLine> lines;
    for (const auto& key : section.keys) {
      lines.push_back(offered(key));
      // The required keys of a repeated section are comments, because the section is optional.
      if (section.repeated && key.required) lines.back().assignment.insert(0, "# ");
    }
    text += std::string(section.repeated ? "\n# " : "\n") + headline(section) + in_columns(lines);
  }
  return text;
}

}  // namespace trireme
