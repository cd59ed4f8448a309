#pragma once
// The training loop: steps, evaluations, checkpoints and history, until the last step or a stop.
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/comm/agree.hpp"
#include "lib/data/dataset.hpp"
#include "lib/data/tokenizer.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/config.hpp"
#include "lib/run/config.hpp"
#include "lib/run/idle_experts.hpp"
#include "lib/run/progress.hpp"
#include "lib/run/read_ahead.hpp"
#include "lib/run/record.hpp"
#include "lib/run/saving.hpp"
#include "lib/run/signal_notice.hpp"
#include "lib/run/signals.hpp"
#include "lib/run/step_times.hpp"
#include "lib/run/step_trace.hpp"
#include "lib/run/timing.hpp"
#include "lib/train/config.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Returns true if `every` is positive and divides `step`.
inline bool is_multiple(std::int64_t step, std::int64_t every) {
  return every > 0 && step % every == 0;
}

// Returns true if an evaluation is due after this step of a run with validation data.
bool evaluation_is_due(const EvaluateConfig&, std::int64_t step, std::int64_t total_steps);

// The settings of a training loop.
struct LoopSettings {
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  EvaluateConfig evaluate;
  CheckpointConfig checkpoint;
  // `time_limit` counts from `started`.
  RunConfig run;
  // FLOP/s of a rank. 0 if unknown.
  double peak_flops = 0;
  // The run directory, to which all ranks write.
  std::filesystem::path directory;
  std::chrono::steady_clock::time_point started;
};

// The objects that a training loop uses. They must outlive the loop.
struct LoopParts {
  Trainer& trainer;
  const Dataset& training;
  // Null if there is no validation data.
  const Dataset* validation;
  RunRecord& record;
  SignalWatch& signals;
  // Null if no sample texts are generated.
  const Tokenizer* tokenizer = nullptr;
};

// The state from which training starts or continues.
struct LoopStart {
  // State of the checkpoint. A new run has step 0.
  CheckpointMeta meta;
  // The checkpoint from which the run restarted. Empty for a new run.
  std::string restored{};
  // True if the evaluation after meta.step is missing, because the earlier process stopped before
  // it.
  bool evaluation_missing = false;
};

// How a training loop ended.
enum class Ending : std::uint8_t {
  done,
  stopped  // stopped early, with a checkpoint to restart from
};

// The training loop of a run.
class TrainLoop {
 public:
  // The constructor and run() are collective: all ranks take the same decisions.
  TrainLoop(LoopParts, LoopSettings, LoopStart);

  // Trains until the last step or until the run is stopped. Throws SharedError if the run fails.
  Ending run();
  // Returns the number of completed steps.
  std::int64_t step() const { return meta_.step; }
  const std::string& last_checkpoint() const { return saving_.last_checkpoint(); }
  // Returns why the run stopped early. Empty if it did not.
  const std::string& reason() const { return reason_; }
  // Returns a text for the end of the run: duration, mean rate, and where the results are.
  std::string summary() const;
  // Returns the resources used so far on all ranks. Collective.
  RunTiming timing() const;

 private:
  // The decision of all ranks at the end of a step.
  struct Decision {
    const char* stop;  // the reason to stop, or an empty text
    bool checkpoint, save_due, writing, droppable;
  };
  Decision decide();
  // Returns the request that a file stop_now or checkpoint_now in the run directory makes, and
  // removes the file.
  RunRequest asked_by_file();
  bool on_any_rank(bool here) const;
  Ending run_steps();
  std::vector<Batch> microbatches_of_step();
  // Runs one step. Returns false if the step was dropped because it would have delayed the
  // checkpoint that a signal requested.
  bool one_step();
  // From now on, the arrival of a signal is logged as one during the next step.
  void announce_step();
  // Returns true if, on this rank, finishing the step would delay the checkpoint that a signal
  // requested beyond run.signal_grace.
  bool is_too_long(std::chrono::steady_clock::time_point begin, int done, int of) const;
  void count_skipped(const StepResult&);
  void judge_fault(const std::string& fault);
  // Writes the step's row and log line. `sent` is the payload in bytes that this rank sent.
  void report(const StepResult&, double lr, double seconds, std::int64_t sent);
  // Evaluates the model. Returns false if a signal interrupted the evaluation.
  bool evaluate_now();
  // Evaluates the model. Returns false if the run must stop because of a signal. If the last step
  // has been evaluated completely, returns true.
  bool evaluate_and_go_on();
  // Generates and logs a sample text if one is due. A text that a signal interrupts is left out.
  void sample_now();
  Saving::Last last_step() const;
  // Saves a checkpoint, then rethrows the current SharedError, which leaves the model's state
  // intact. It must not be called for other errors: they may occur on a single rank, so that a
  // collective would hang.
  void save_and_rethrow();
  bool evaluation_is_due(std::int64_t step) const;
  double next_step_seconds() const;
  bool near_time_limit() const;
  double elapsed() const;

  Trainer& trainer_;
  const Dataset& training_;
  const Dataset* validation_;
  RunRecord& record_;
  SignalWatch& signals_;
  const Tokenizer* tokenizer_;
  LoopSettings settings_;
  CheckpointMeta meta_;
  bool evaluation_missing_;
  std::int64_t total_steps_;
  std::int64_t first_step_;  // first step of this process
  std::int64_t tokens_ = 0;  // tokens of this process's steps, without padding
  struct {
    std::int64_t tokens;  // tokens since then
    std::chrono::steady_clock::time_point at;
    double evaluating;  // seconds of evaluation since then
  } line_;              // the newest log line about a step
  Saving saving_;
  // When the files stop_now and checkpoint_now were last looked for.
  std::chrono::steady_clock::time_point looked_at_{};
  StepTimes times_;
  std::string reason_;
  // True if the next step may take longer than run.signal_grace, so that a signal may drop it.
  bool droppable_ = true;
  // Error that occurred while the last row of history.csv was written, on rank 0.
  std::exception_ptr row_error_;
  Progress progress_;
  IdleExperts idle_experts_;
  StepTrace trace_;
  // On rank 0.
  std::optional<SignalNotice> notice_;
  ReadAhead reading_;
};

}  // namespace trireme
