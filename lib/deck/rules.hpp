#pragma once
// What the files of rules between keys share; `check_deck` calls them all.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/deck/check.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// Rules of some sections of a deck, which add to the problems of all.
class DeckRules {
 public:
  DeckRules(const Deck& deck, std::vector<DeckProblem>& problems)
      : deck_(deck), problems_(problems) {}

 protected:
  template <class... A>
  void rule(bool holds, std::vector<std::string> keys, fmt::format_string<A...> text, A&&... args) {
    if (!holds) problems_.push_back({std::move(keys), fmt::format(text, std::forward<A>(args)...)});
  }

  const Deck& deck_;
  std::vector<DeckProblem>& problems_;
};

// Of [model] and [adapter], and of train.balance, which is of mixtures of experts.
void model_rules(const Deck&, std::vector<DeckProblem>&);
// Of train.objective and [distill]: what each objective needs, and what it does not go with.
void objective_rules(const Deck&, std::vector<DeckProblem>&);

}  // namespace trireme
