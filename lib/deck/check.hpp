#pragma once
// Rules between several keys. Pure: they read nothing but the deck.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/comm/grid.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// `keys` are all that the rule reads, the one to change first.
struct DeckProblem {
  std::vector<std::string> keys;
  std::string message;
};

// All rules but those that depend on the number of ranks. Empty: the deck is sound.
std::vector<DeckProblem> check_deck(const Deck&);

// Gives train.microbatch a value where the deck has none, parallel.data is known and the batch can
// be dealt out. With pipe > 1: the largest that leaves 2*pipe of them, so that the pipeline's
// bubble stays small.
void decide_microbatch(Deck&);
std::int64_t default_microbatch(std::int64_t samples_per_data_rank, std::int64_t pipe,
                                ScheduleKind = ScheduleKind::one_f_one_b);

// What the deck's grid has to fit.
GridLimits limits_of(const Deck&);

}  // namespace trireme
