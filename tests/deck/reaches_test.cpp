// Keys that the trainer reads reach its settings: a key that resolve.cpp does not copy would be
// accepted without an effect.
#include <gtest/gtest.h>

#include <set>

#include "lib/deck/resolve.hpp"
#include "lib/deck/table.hpp"
#include "tests/deck/sample.hpp"

namespace trireme {

namespace {

// Returns another value of the key's kind. The deck need not be a legal one.
KeyValue other_than(const KeyValue& value, const Key& key) {
  if (const auto* const flag = std::get_if<bool>(&value)) return !*flag;
  if (const auto* const n = std::get_if<std::int64_t>(&value)) return *n + 1;
  if (const auto* const x = std::get_if<double>(&value)) return *x + 0.25;
  if (!key.choices.empty()) {
    for (const auto& name : key.choices)
      if (KeyValue(name) != value) return name;
  }
  switch (key.kind) {
    case ValueKind::integer:
      return std::int64_t{3};
    case ValueKind::real:
      return 0.25;
    case ValueKind::text:
    case ValueKind::path:
      return std::string("other");
    case ValueKind::integers:
      return std::vector<std::int64_t>{1, 2};
    case ValueKind::reals:
      return std::vector<double>{0.25, 0.5};
    default:
      return std::vector<std::string>{"other"};
  }
}

// Returns the keys of a section that change nothing in the settings of a trainer and its plan.
std::set<std::string> without_effect(std::string_view section) {
  std::set<std::string> names;
  Deck deck = parsed(least_deck);
  deck.model.vocab = 32;
  const auto before =
      plan_input_of(deck, deck.precision.compute, TransportKind::host, {}, DocumentWeights::absent);
  for (const auto& key : find_section(section)->keys) {
    Deck other = deck;
    key.access.set(other, 0, other_than(key.access.get(deck, 0), key));
    const auto after = plan_input_of(other, other.precision.compute, TransportKind::host, {},
                                     DocumentWeights::absent);
    // What [model] says of training must be in the settings, too, not in TrainConfig alone.
    const bool train = section == "model" || before.train == after.train;
    if (before.setup == after.setup && before.grid == after.grid && train) names.insert(key.name);
  }
  return names;
}

}  // namespace

TEST(Reaches, EveryKeyOfTheTrainerHasAnEffect) {
  using Names = std::set<std::string>;
  for (const char* section : {"adapter", "optimizer", "train", "parallel", "zero"})
    EXPECT_EQ(without_effect(section), Names{}) << section;
  EXPECT_EQ(without_effect("model"), (Names{"init_from", "preset"}));  // read before, by others
  EXPECT_EQ(without_effect("precision"), Names{"tf32"});               // of the backend
}

}  // namespace trireme
