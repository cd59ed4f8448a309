// Conversion of decks to text: the effective deck, the template, and the differences of two decks.
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
  const auto* number = std::get_if<std::int64_t>(&value);
  if (key.zero_is_unset && number && *number == 0) {
    return {fmt::format("# {} = {}", key.name, key.example), "not given; " + comment_of(key)};
  }
  return {fmt::format("{} = {}", key.name, to_toml(value)), comment_of(key)};
}

CommentedLine offered(const Key& key) {
  const std::string plain = default_text(key);
  return {fmt::format(
              "{}{} = {}", key.required ? "" : "# ", key.name,
              plain.empty() || plain == "[]" ? key.example.empty() ? plain : key.example : plain),
          comment_of(key)};
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
      "# A Trireme deck. Lines that start with # show defaults or examples; remove the # to "
      "change\n"
      "# them. ${NAME} in a text is replaced by the environment variable NAME.\n";
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

static std::vector<KeyChange> changes(const Deck& before, const Deck& after) {
  std::vector<KeyChange> all;
  for (const auto& section : deck_sections()) {
    const std::size_t most = std::max(section.rows(before), section.rows(after));
    for (std::size_t row = 0; row < most; ++row) {
      for (const auto& key : section.keys) {
        const auto value = [&](const Deck& deck) {
          return row < section.rows(deck) ? to_toml(key.access.get(deck, row)) : "absent";
        };
        const std::string old = value(before), now = value(after);
        if (old != now) all.push_back({key.path(), old, now});
      }
    }
  }
  return all;
}

static std::vector<std::string> texts_of(const std::vector<KeyChange>& changes) {
  std::vector<std::string> texts;
  for (const auto& c : changes)
    texts.push_back(fmt::format("{}: {} -> {}", c.key, c.before, c.after));
  return texts;
}

std::vector<std::string> deck_differences(const Deck& before, const Deck& after) {
  return texts_of(changes(before, after));
}

static std::vector<KeyChange> model_changes(const ModelDescription& before,
                                            const ModelDescription& after) {
  Deck a, b;
  // A window may have an effect only in the longer of the two contexts.
  const auto positions = std::max(before.model.max_context, after.model.max_context);
  for (auto [deck, from] : {std::pair{&a, &before}, std::pair{&b, &after}}) {
    deck->model = from->model;
    deck->model.max_context = positions;
    deck->model = canonical(std::move(deck->model));
    deck->adapter = canonical(from->adapter);
  }
  return changes(a, b);
}

std::vector<KeyChange> model_changes(const ModelConfig& before, const ModelConfig& after) {
  return model_changes(ModelDescription{before}, ModelDescription{after});
}

std::vector<std::string> model_differences(const ModelConfig& before, const ModelConfig& after) {
  return texts_of(model_changes(before, after));
}

std::vector<std::string> model_differences(const ModelDescription& before,
                                           const ModelDescription& after) {
  return texts_of(model_changes(before, after));
}

}  // namespace trireme
