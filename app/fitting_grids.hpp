#pragma once
// For a run whose ranks need more memory than there is: which grids and settings need less.
#include <string>
#include <vector>

#include "app/run_support.hpp"

namespace trireme {

// What is planned: a deck on so many ranks. As `plan` was given it.
struct PlannedRun {
  DeckArguments deck;
  std::int64_t ranks = 0;
  std::int64_t ranks_of_node = 0;  // 0: not known

  // What a resolved deck asks of these ranks, in the type that it names.
  PlanInput input(const Deck& resolved, TransportKind) const;
  Deck resolved(Deck) const;
};

struct FittingGrid {
  std::vector<std::string> overrides;
  std::size_t needed;  // bytes of a rank
};

// Of all grids of that many ranks, those nearest to the asked one whose ranks need at most
// `limit` bytes, each with the first zero.stage and cadences, from the asked ones to those that
// take least memory, that do.
std::vector<FittingGrid> grids_that_fit(const PlannedRun&, const PlanInput& asked, const DryTarget&,
                                        std::size_t limit);

// A line for each: what to set, and what it costs in memory, idle time and traffic.
std::string fitting_text(const PlannedRun&, const PlanInput& asked, DryTarget,
                         const std::vector<FittingGrid>&);

}  // namespace trireme
