#pragma once
// A choice's step, simulated.
#include <algorithm>
#include <vector>

#include "lib/predict/choices.hpp"
#include "lib/predict/machine.hpp"
#include "lib/predict/simulate.hpp"

namespace trireme {

struct Trial {
  RunChoice choice;
  double seconds = 0;  // of a step
  // Of a rank of each kind: bytes that it needs, and that it sends in a step.
  std::vector<std::size_t> needed_by_kind = {};
  std::vector<double> sent_by_kind = {};
  Lost lost = {};

  std::size_t needed() const { return std::ranges::max(needed_by_kind); }
  double sent() const { return std::ranges::max(sent_by_kind); }
};

// A step with that many microbatches.
Trial simulate_choice(const PlanInput&, const DryTarget&, const MachineModel&, const RunChoice&,
                      std::int64_t microbatches);

// Steps of very many microbatches are continued from steps with fewer of them, which may need a
// little less memory.
Trial try_choice(const PlanInput&, const DryTarget&, const MachineModel&, const RunChoice&);

// Memory as the plan of that very choice has it, of the kinds that may need most: with all
// microbatches, an evaluation and whatever else a run does.
void plan_memory(Trial&, const PlanInput&, const DryTarget&);

}  // namespace trireme
