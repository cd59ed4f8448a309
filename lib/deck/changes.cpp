// The differences of two decks.
#include <algorithm>
#include <optional>

#include "lib/deck/table.hpp"

namespace trireme {
namespace {

// Returns the key by which users recognize an entry of a repeated section: its first one that is
// set, such as the name of a [[validation]] section or the start of a [[phase]] section.
const Key& naming_key(const KeySection& section, const Deck& deck, std::size_t row) {
  for (const auto& key : section.keys)
    if (!is_unset(key, key.access.get(deck, row))) return key;
  return section.keys.front();
}
std::string name_of_entry(const KeySection& section, const Deck& deck, std::size_t row) {
  const auto& key = naming_key(section, deck, row);
  return fmt::format("{} = {}", key.name, to_toml(key.access.get(deck, row)));
}

// Entries of two decks that are compared. One of them may be absent.
struct Pair {
  std::optional<std::size_t> before, after;
};

// Pairs the entries of a section in order. Entries with the same name belong together, so that an
// entry that is added or removed does not shift the others. Between them, entries are paired by
// their places.
std::vector<Pair> pairs_of(const KeySection& section, const Deck& before, const Deck& after) {
  const auto olds = section.rows(before), news = section.rows(after);
  if (!section.repeated) return {{0, 0}};
  std::vector<Pair> pairs;
  std::size_t i = 0, j = 0;
  const auto pair_until = [&](std::size_t old_end, std::size_t new_end) {
    while (i < old_end || j < new_end) {
      Pair pair;
      if (i < old_end) pair.before = i++;
      if (j < new_end) pair.after = j++;
      pairs.push_back(pair);
    }
  };
  for (std::size_t old = 0; old < olds; ++old) {
    const auto name = name_of_entry(section, before, old);
    for (std::size_t now = j; now < news; ++now) {
      if (name_of_entry(section, after, now) != name) continue;
      pair_until(old, now);
      pairs.push_back({i++, j++});
      break;
    }
  }
  pair_until(olds, news);
  return pairs;
}

}  // namespace

std::vector<KeyChange> deck_changes(const Deck& before, const Deck& after) {
  std::vector<KeyChange> all;
  for (const auto& section : deck_sections()) {
    for (const auto& pair : pairs_of(section, before, after)) {
      for (const auto& key : section.keys) {
        const auto value = [&](const Deck& deck, std::optional<std::size_t> row) {
          if (!row) return std::string("absent");
          const auto v = key.access.get(deck, *row);
          return section.repeated && is_unset(key, v) ? "absent" : to_toml(v);
        };
        const std::string old = value(before, pair.before), now = value(after, pair.after);
        if (old == now) continue;
        KeyChange change{key.path(), old, now, {}};
        if (section.repeated) {
          const Deck& deck = pair.after ? after : before;
          const auto row = pair.after.value_or(pair.before.value_or(0));
          if (&naming_key(section, deck, row) != &key)
            change.entry = name_of_entry(section, deck, row);
        }
        all.push_back(std::move(change));
      }
    }
  }
  return all;
}

static std::vector<std::string> texts_of(const std::vector<KeyChange>& changes) {
  std::vector<std::string> texts;
  for (const auto& c : changes)
    texts.push_back(fmt::format("{}: {} -> {}",
                                c.entry.empty() ? c.key : fmt::format("{} ({})", c.key, c.entry),
                                c.before, c.after));
  return texts;
}

std::vector<std::string> deck_differences(const Deck& before, const Deck& after) {
  return texts_of(deck_changes(before, after));
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
  return deck_changes(a, b);
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
