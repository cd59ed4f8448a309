#pragma once
// Finds grids and settings that fit into the available memory, for a run whose ranks need more
// memory.
#include <string>
#include <vector>

#include "app/run_support.hpp"

namespace trireme {

// The run to be planned: a deck and a number of ranks, as given to `plan`.
struct PlannedRun {
  DeckArguments deck;
  std::int64_t ranks = 0;
  // Number of ranks per node. 0 if unknown.
  std::int64_t ranks_of_node = 0;

  // Returns the input of a plan for a resolved deck and its teacher. The compute type is that of
  // the deck.
  PlanInput input(const Deck& resolved, TransportKind) const;
  // Returns the deck resolved for these ranks.
  Deck resolved(Deck) const;
};

// A grid whose ranks have enough memory, expressed as overrides of the deck.
struct FittingGrid {
  std::vector<std::string> overrides;
  std::size_t needed;  // bytes per rank
};

// Returns the grids for this number of ranks on which a rank needs at most `limit` bytes. The grids
// most similar to the grid in `asked` come first. For each grid, the function tries ZeRO settings
// in order of decreasing memory, beginning with the settings in `asked`, and uses the first
// settings that fit.
std::vector<FittingGrid> grids_that_fit(const PlannedRun&, const PlanInput& asked, const DryTarget&,
                                        std::size_t limit);

// Returns a table with one line per grid: its overrides, memory, pipeline bubble and traffic.
std::string fitting_text(const PlannedRun&, const PlanInput& asked, DryTarget,
                         const std::vector<FittingGrid>&);

}  // namespace trireme
