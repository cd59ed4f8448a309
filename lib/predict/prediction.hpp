#pragma once
// What a run takes on a machine: each kind of rank's step recorded, all of them simulated together.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/io/config.hpp"
#include "lib/plan/plan.hpp"
#include "lib/predict/recording.hpp"
#include "lib/predict/simulate.hpp"

namespace trireme {

// What of a run lies outside its steps.
struct RunInput {
  std::int64_t steps = 0;
  CheckpointConfig checkpoint;
  bool tf32 = false;  // f32 products on tensor cores
};

struct Prediction {
  double step = 0;  // seconds
  double tokens_a_second = 0;
  double utilisation = 0;  // model FLOPs of the peak; 0: no peak known
  Lost lost;
  double bubble_share() const { return lost.bubble / step; }  // of all stages' time
  double checkpoint = 0;         // seconds that training waits for one; 0: no disk known
  std::int64_t checkpoints = 0;  // of the run
  double run = 0;                // seconds of all steps and checkpoints
  // Attention within documents or under a soft cap on a GPU: cuDNN does not compute it, and machine
  // files hold the rate of what it does. Then the step is predicted too short.
  bool slower_attention = false;
};

// Recordings of all kinds of rank.
std::vector<Recording> record_kinds(const PlanInput&, const DryTarget&, const MachineModel&);

Prediction predict(const PlanInput&, const RunInput&, const MachineModel&, const Simulated&,
                   double checkpoint_bytes);

// Lines for the terminal, and the same as JSON.
std::string prediction_text(const Prediction&, const MachineModel&);
nlohmann::ordered_json prediction_json(const Prediction&, const MachineModel&);

// The step as a Chrome trace: a process for each kind of rank, named as its first rank, a track for
// each queue.
std::string prediction_trace(std::span<const Recording>, const Simulated&);

}  // namespace trireme
