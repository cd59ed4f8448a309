#pragma once
// Common base of the source files with rules between keys. check_deck() calls all rules.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/deck/check.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// Rules for some sections of a deck. Violations are appended to `problems`.
class DeckRules {
 public:
  DeckRules(const Deck& deck, std::vector<DeckProblem>& problems)
      : deck_(deck), problems_(problems) {}

 protected:
  // Appends a problem if `holds` is false. The remaining arguments format the problem's message.
  template <class... A>
  void rule(bool holds, std::vector<std::string> keys, fmt::format_string<A...> text, A&&... args) {
    if (!holds) problems_.push_back({std::move(keys), fmt::format(text, std::forward<A>(args)...)});
  }

  const Deck& deck_;
  std::vector<DeckProblem>& problems_;
};

// Checks [model], [adapter], and train.balance, which applies to mixture-of-experts models.
void model_rules(const Deck&, std::vector<DeckProblem>&);
// Checks train.objective and [distill]: the keys that each objective requires or excludes.
void objective_rules(const Deck&, std::vector<DeckProblem>&);
// Checks [data] and the [[phase]] sections.
void data_rules(const Deck&, std::vector<DeckProblem>&);
// Checks the [[validation]] sections, and the keys that compare evaluations with each other.
void evaluation_rules(const Deck&, std::vector<DeckProblem>&);
// Checks [optimizer]: the keys that each optimizer requires or excludes.
void optimizer_rules(const Deck&, std::vector<DeckProblem>&);
// Checks [precision], and that f32 can represent the numbers of all sections.
void precision_rules(const Deck&, std::vector<DeckProblem>&);
// Checks that patterns match names of parameters. The deck must have no other problems, because the
// names of an invalid model are unknown.
void pattern_rules(const Deck&, std::vector<DeckProblem>&);

}  // namespace trireme
