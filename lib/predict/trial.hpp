#pragma once
// Simulates the step of a choice.
#include <algorithm>
#include <vector>

#include "lib/predict/choices.hpp"
#include "lib/predict/machine.hpp"
#include "lib/predict/simulate.hpp"

namespace trireme {

// A choice (a grid with its settings) and its simulated step.
struct Trial {
  RunChoice choice;
  double seconds = 0;  // of a step
  // For a rank of each kind, the bytes of memory that it needs and the bytes that it sends in a
  // step.
  std::vector<std::size_t> needed_by_kind = {};
  std::vector<double> sent_by_kind = {};
  Lost lost = {};

  std::size_t needed() const { return std::ranges::max(needed_by_kind); }
  double sent() const { return std::ranges::max(sent_by_kind); }
};

// Simulates a step of a choice with `microbatches` micro-batches.
Trial simulate_choice(const PlanInput&, const DryTarget&, const MachineModel&, const RunChoice&,
                      std::int64_t microbatches);

// Simulates a step of a choice. If a step has very many micro-batches, its time is extrapolated
// from steps with fewer, and the memory is that of these shorter steps, which may be slightly too
// low.
Trial try_choice(const PlanInput&, const DryTarget&, const MachineModel&, const RunChoice&);

// Replaces the memory in a trial by the result of an exact plan, for the kinds of rank that may
// need the most memory. The plan includes all micro-batches, an evaluation and everything else that
// a run does.
void plan_memory(Trial&, const PlanInput&, const DryTarget&);

}  // namespace trireme
