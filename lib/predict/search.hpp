#pragma once
// Searches for the fastest ways to run a model on a given number of ranks, among the choices of
// lib/predict/choices.hpp. Lower bounds on time and memory exclude choices that cannot be among the
// fastest. The bounds never exceed the true values, so no best choice is excluded. All remaining
// choices are simulated.
#include <optional>
#include <vector>

#include "lib/predict/trial.hpp"

namespace trireme {

// Result of a search.
struct SearchResult {
  std::vector<Trial> best;                   // the fastest first
  std::int64_t choices = 0;                  // number of all choices
  std::int64_t too_large = 0, too_slow = 0;  // excluded by the bounds on memory and time
  // Number of simulated choices without the alternatives, and how many of them need too much
  // memory. `choices` is the sum of `too_large`, `too_slow` and `simulated`.
  std::int64_t simulated = 0, over_memory = 0;
  std::vector<Trial> alternatives;  // the fastest choice with one setting changed
};

// Whether choices are excluded by bounds or all choices are simulated.
enum class Bounds : std::uint8_t { prune, try_all };

// Returns the `most` fastest choices on `ranks` ranks. The grid and settings in the input are
// ignored. `memory` is the number of bytes that a rank may reserve. If it is absent, memory is
// unlimited.
SearchResult search(const PlanInput&, const DryTarget&, const MachineModel&, std::int64_t ranks,
                    std::optional<double> memory, Bounds = Bounds::prune, std::size_t most = 10);

}  // namespace trireme
