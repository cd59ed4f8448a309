#pragma once
// The run: steps, evaluations, checkpoints, history, until it is done or asked to stop.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/config.hpp"
#include "lib/run/config.hpp"
#include "lib/run/progress.hpp"
#include "lib/run/record.hpp"
#include "lib/run/signals.hpp"
#include "lib/run/step_trace.hpp"
#include "lib/train/config.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Steps of the whole run: train.steps, or those done and as many as the tokens left ask for.
std::int64_t steps_of_run(const TrainConfig&, std::int64_t context, const CheckpointMeta&);

// Is an evaluation due after this step of a run that has held-out data?
bool evaluation_is_due(const EvaluateConfig&, std::int64_t step, std::int64_t total_steps);

struct LoopSettings {
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  EvaluateConfig evaluate;
  CheckpointConfig checkpoint;
  std::int64_t log_every = 1;
  double time_limit = 0;  // seconds since `started`; 0: none
  TraceConfig trace;
  std::filesystem::path run;  // the run directory, to which all ranks save
  std::chrono::steady_clock::time_point started;
};

// What a loop works with; all of it outlives the loop.
struct LoopParts {
  Trainer& trainer;
  const Dataset& training;
  const Dataset* validation;  // null: nothing is held out
  RunRecord& record;
  SignalWatch& signals;
};

// Where training goes on.
struct LoopStart {
  CheckpointMeta meta;           // what every checkpoint says of the run; a fresh one: step 0
  std::string restored{};        // the checkpoint that it goes on from; empty: none
  bool owes_evaluation = false;  // that of meta.step, which this run did not come to
};

enum class Ending : std::uint8_t {
  done,
  stopped  // early, with a checkpoint to go on from
};

class TrainLoop {
 public:
  // What the loop decides, all ranks decide together.
  TrainLoop(LoopParts, LoopSettings, LoopStart);

  Ending run();
  std::int64_t step() const { return meta_.step; }  // finished steps
  const std::string& last_checkpoint() const { return last_checkpoint_; }
  const std::string& reason() const { return reason_; }  // why it stopped early

 private:
  // What the ranks agree on at the end of a step.
  struct Decision {
    bool stop_signal, checkpoint_signal, time_is_near, save_due;
  };
  Decision decide();
  bool anywhere(bool here) const;
  Ending run_steps();
  void one_step();
  std::vector<Batch> read_step() const;
  void judge(const StepResult&);
  void report(const StepResult&, double lr, double seconds);
  // Whether it came to its end.
  bool evaluate_now();
  // Whether to go on after it: neither broken off nor, but for the last one, followed by a signal.
  bool evaluated();
  void save_now();
  // Saves what there is before a SharedError that is not the state's ends the run. Any other error
  // may be one rank's alone, and what is collective would hang.
  void save_and_rethrow();
  double save_estimate() const;  // seconds
  bool save_is_due() const;
  bool evaluation_is_due(std::int64_t step) const;
  bool time_is_near() const;
  double elapsed() const;

  Trainer& trainer_;
  const Dataset& training_;
  const Dataset* validation_;
  RunRecord& record_;
  SignalWatch& signals_;
  LoopSettings settings_;
  CheckpointMeta meta_;
  bool owes_evaluation_;
  std::int64_t total_steps_, step_tokens_;
  std::int64_t first_step_;       // of this process
  std::int64_t saved_step_ = -1;  // of the newest checkpoint
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  double save_seconds_ = 0, steps_seconds_ = 0, evaluation_seconds_ = 0;
  std::string last_checkpoint_, reason_;
  std::int64_t bytes_sent_ = 0;  // before this step
  Progress progress_;
  StepTrace trace_;
};

}  // namespace trireme
