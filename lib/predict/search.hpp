#pragma once
// The fastest ways to run a model on a number of ranks: over grids, zero.stage and cadences,
// schedules, microbatch and recompute. What cannot be among the fastest is left out by bounds that
// are never above the truth, so the best found is the best there is; the rest is simulated.
#include <optional>
#include <string>
#include <vector>

#include "lib/plan/plan.hpp"
#include "lib/predict/machine.hpp"
#include "lib/predict/simulate.hpp"

namespace trireme {

struct RunChoice {
  Grid grid;
  // 0, or 3 with its cadences: stage 1 is 3 with both once a step, stage 2 with gather once a step.
  int zero_stage = 0;
  ZeroCadence gather = ZeroCadence::microbatch, reduce = ZeroCadence::microbatch;
  std::int64_t microbatch = 1;
  Recompute recompute = Recompute::none;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  bool operator==(const RunChoice&) const = default;
};

// "parallel.pipe=4 parallel.data=8 ...": what to put behind the deck on a command line.
std::string overrides_of(const RunChoice&);

struct Trial {
  RunChoice choice;
  double seconds = 0;  // of a step
  std::size_t needed = 0;
  double sent = 0;  // bytes of a rank in a step, the most of any
  Lost lost;
};

struct SearchResult {
  std::vector<Trial> best;                      // the fastest first
  std::int64_t choices = 0;                     // in all
  std::int64_t too_large = 0, too_slow = 0;     // left out by bounds on memory and on time
  std::int64_t simulated = 0, over_memory = 0;  // of these
  // In words: the best with one thing changed.
  std::vector<std::string> alternatives;
};

enum class Bounds : std::uint8_t { prune, try_all };

// `memory`: bytes that a rank may reserve. The input's own grid and settings do not matter.
SearchResult search(const PlanInput&, const DryTarget&, const MachineModel&, std::int64_t ranks,
                    std::optional<double> memory, Bounds = Bounds::prune, std::size_t most = 10);

std::string search_text(const SearchResult&, std::optional<double> memory);

// Its parts. All choices that the model and the batch allow.
std::vector<RunChoice> choices_of(const PlanInput&, std::int64_t ranks);
// One choice's step; of very many microbatches, from steps with fewer of them.
Trial try_choice(const PlanInput&, const DryTarget&, const MachineModel&, const RunChoice&);

}  // namespace trireme
