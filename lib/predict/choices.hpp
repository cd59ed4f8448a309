#pragma once
// The ways to run a model on a number of ranks: over grids, ranks that a mixture's
// experts are spread over, zero.stage and cadences, schedules, microbatch and recompute.
#include <string>
#include <vector>

#include "lib/plan/plan.hpp"

namespace trireme {

struct RunChoice {
  Grid grid;
  bool mixture = false;  // Grid::expert is chosen, too
  // 0, or 3 with its cadences: stage 1 is 3 with both once a step, stage 2 with gather once a step.
  int zero_stage = 0;
  ZeroCadence gather = ZeroCadence::microbatch, reduce = ZeroCadence::microbatch;
  std::int64_t microbatch = 1;
  Recompute recompute = Recompute::none;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  bool operator==(const RunChoice&) const = default;
};

// Does a run on this grid accept the rest of it?
bool accepts(const PlanInput&, const RunChoice&);

// All that the model and the batch allow. The input's own grid and settings do not matter.
// most_groups: of ranks of seq that share out positions; each is a kind of rank to simulate.
std::vector<RunChoice> choices_of(const PlanInput&, std::int64_t ranks, int most_groups);

struct ChunkedSchedule {
  ScheduleKind schedule;
  int chunks;
};
// Those that a pipeline and its microbatches allow; chunks are powers of two.
std::vector<ChunkedSchedule> schedules_of(const PlanInput&, int pipe, std::int64_t microbatches);

// Microbatches of a step.
std::int64_t microbatches_of(const PlanInput&, const RunChoice&);

// The input as a choice has it.
PlanInput input_of(const PlanInput&, const RunChoice&);

// "parallel.pipe=4 parallel.data=8 ...": what to put behind the deck on a command line.
std::string overrides_of(const RunChoice&);
// Its parts.
std::string expert_override(const RunChoice&);
std::string zero_overrides(const RunChoice&);
std::string schedule_overrides(const RunChoice&);
std::string recompute_override(Recompute);

}  // namespace trireme
