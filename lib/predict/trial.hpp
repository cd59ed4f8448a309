#pragma once
// A choice's step, simulated.
#include "lib/predict/choices.hpp"
#include "lib/predict/machine.hpp"
#include "lib/predict/simulate.hpp"

namespace trireme {

struct Trial {
  RunChoice choice;
  double seconds = 0;      // of a step
  std::size_t needed = 0;  // bytes of a rank, the most of any
  double sent = 0;         // bytes of a rank in a step, the most of any
  Lost lost;
};

// Steps of very many microbatches are continued from steps with fewer of them.
Trial try_choice(const PlanInput&, const DryTarget&, const MachineModel&, const RunChoice&);

}  // namespace trireme
