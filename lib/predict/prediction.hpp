#pragma once
// Predicts the time of a run on a machine. One step of each kind of rank is recorded, and all
// recordings are simulated together.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/io/config.hpp"
#include "lib/plan/plan.hpp"
#include "lib/predict/generation.hpp"
#include "lib/predict/recording.hpp"
#include "lib/predict/simulate.hpp"

namespace trireme {

// Properties of a run besides its steps.
struct RunInput {
  std::int64_t steps = 0;
  // Seconds by which the run is shorter than `steps` steps of train.batch, because its first steps
  // have smaller batches (saved_by_ramp).
  double saved = 0;
  // Numbers of completed steps at which decays of the learning rate end, each with a checkpoint,
  // before the end of the run.
  std::vector<std::int64_t> decay_ends{};
  CheckpointConfig checkpoint;
  bool tf32 = false;  // use tensor cores for f32 products
};

// The predicted time of a run.
struct Prediction {
  double step = 0;              // seconds of a step
  double tokens_a_second = 0;   // without padding
  double targets_a_second = 0;  // 0 if unknown
  // Fraction of the peak rate that the model's FLOPs reach. 0 if no peak rate is known.
  double utilisation = 0;
  Lost lost;
  double bubble_share() const { return lost.bubble / step; }  // fraction of all stages' time
  // Seconds for which training waits for a checkpoint. 0 if no disk rate is known.
  double checkpoint = 0;
  std::int64_t checkpoints = 0;  // number in the run
  // Seconds for which training waits for the snapshot of a memory copy, and seconds in which the
  // links to other nodes carry the copy. Both are 0 if there are no memory copies or no rates.
  double copy_wait = 0, copy_transfer = 0;
  double run = 0;  // seconds of all steps and checkpoints
  // True if a GPU computes attention with a soft cap, or within documents for which the machine
  // file has no rates. The prediction then uses the rate of cuDNN's attention, which supports
  // neither, so the predicted step is too short.
  bool slower_attention = false;
  // Seconds of computation by operation (Workload::name), on the kind of rank that computes
  // longest.
  std::map<std::string, double> operations{};
  std::optional<GenerationTimes> generation{};  // if requested
};

// Records one step of one rank of each kind. A kind is a set of ranks whose steps are alike.
std::vector<Recording> record_kinds(const PlanInput&, const DryTarget&, const MachineModel&);

// Returns Prediction::operations.
std::map<std::string, double> operation_seconds(const MachineModel&, std::span<const Recording>);

// Returns the seconds by which train.batch_ramp shortens a run of `steps` steps. `step_seconds` is
// the time of a step of train.batch. Simulates a step of the smallest batch, and interpolates the
// times of other batches linearly.
double saved_by_ramp(const PlanInput&, const DryTarget&, const MachineModel&, std::int64_t steps,
                     double step_seconds);

// Sizes of the state that one rank saves, as maxima over ranks, in bytes.
struct SavedBytes {
  double all = 0;       // of a checkpoint
  double changing = 0;  // the part that training changes, which each memory copy sends
};

// Returns the prediction for a run whose simulated step is given.
Prediction predict(const PlanInput&, const RunInput&, const MachineModel&, const Simulated&,
                   SavedBytes);

// Format the prediction as lines for the terminal and as JSON.
std::string prediction_text(const Prediction&, const MachineModel&);
nlohmann::ordered_json prediction_json(const Prediction&, const MachineModel&);

// Converts the step to a Chrome trace. Each kind of rank is shown as a process, named after its
// first rank, and each queue as a track.
std::string prediction_trace(std::span<const Recording>, const Simulated&);

}  // namespace trireme
