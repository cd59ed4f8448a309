#pragma once
// The fastest ways to run a model on a number of ranks: over all that lib/predict/choices.hpp has.
// What cannot be among the fastest is left out by bounds that
// are never above the truth, so the best found is the best there is; the rest is simulated.
#include <optional>
#include <string>
#include <vector>

#include "lib/predict/trial.hpp"

namespace trireme {

// The fastest with one thing changed.
struct Alternative {
  std::string overrides;  // of what is changed
  Trial trial;
};

struct SearchResult {
  std::vector<Trial> best;                      // the fastest first
  std::int64_t choices = 0;                     // in all
  std::int64_t too_large = 0, too_slow = 0;     // left out by bounds on memory and on time
  std::int64_t simulated = 0, over_memory = 0;  // of these
  std::vector<Alternative> alternatives;
};

enum class Bounds : std::uint8_t { prune, try_all };

// `memory`: bytes that a rank may reserve. The input's own grid and settings do not matter.
SearchResult search(const PlanInput&, const DryTarget&, const MachineModel&, std::int64_t ranks,
                    std::optional<double> memory, Bounds = Bounds::prune, std::size_t most = 10);

}  // namespace trireme
