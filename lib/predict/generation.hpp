#pragma once
// Predicts how long a model takes to generate text on one rank.
#include <cstdint>

#include "lib/plan/plan.hpp"
#include "lib/predict/machine.hpp"

namespace trireme {

// Times of generation with cached keys and values.
struct GenerationTimes {
  std::int64_t sequences = 0;  // texts that are generated at a time
  double prefill = 0;          // seconds for the prompt of one sequence
  double token = 0;            // seconds for one token of every sequence
};

// Predicts the times of sequences whose prompts fill the context except for one token. Throws Error
// if the run has several ranks.
GenerationTimes predict_generation(const PlanInput&, const DryTarget&, const MachineModel&,
                                   std::int64_t sequences);

}  // namespace trireme
