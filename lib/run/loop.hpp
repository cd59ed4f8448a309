#pragma once
// The training loop, which runs steps, evaluations and checkpoints and records the history, until
// the last step or a stop.
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/agree.hpp"
#include "lib/data/deck_data.hpp"
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
#include "lib/run/skip_rules.hpp"
#include "lib/run/stalled_training.hpp"
#include "lib/run/step_times.hpp"
#include "lib/run/step_trace.hpp"
#include "lib/run/stragglers.hpp"
#include "lib/run/timing.hpp"
#include "lib/tokenizer/tokenizer.hpp"
#include "lib/train/batch_ramp.hpp"
#include "lib/train/config.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Returns true if `every` is positive and divides `step`.
inline bool is_multiple(std::int64_t step, std::int64_t every) {
  return every > 0 && step % every == 0;
}

// Returns true if an evaluation is due after this step. The run must have validation data.
bool evaluation_is_due(const EvaluateConfig&, std::int64_t step, std::int64_t total_steps);

// The settings of a training loop.
struct LoopSettings {
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  EvaluateConfig evaluate;
  EvaluationRanking ranking;  // of evaluations; not used without validation data
  CheckpointConfig checkpoint;
  // Settings of the deck section [run]. `time_limit` counts from `process_started`.
  RunConfig run;
  // Peak FLOP/s of a rank. 0 if unknown.
  double peak_flops = 0;
  // The run directory, to which all ranks write.
  std::filesystem::path directory;
  // Start of the process, or of its part after the last rollback.
  std::chrono::steady_clock::time_point part_started;
  std::chrono::steady_clock::time_point process_started;
};

// Objects that a training loop uses. All of them must outlive the loop.
struct LoopParts {
  Trainer& trainer;
  const Dataset& training;
  // Sets of validation data. Empty if there are none.
  std::span<const ValidationData> validation;
  RunRecord& record;
  SignalWatch& signals;
  // Tokenizer for sample texts. Null if no samples are generated.
  const Tokenizer* tokenizer = nullptr;
};

// The state from which training starts or continues.
struct LoopStart {
  // State in the checkpoint. A new run has step 0.
  CheckpointMeta meta;
  // The checkpoint from which the run restarted. Empty for a new run.
  std::string restored{};
  // Names of the validation sets whose evaluation after meta.step is missing, because the earlier
  // process stopped before that evaluation.
  std::vector<std::string> missing_evaluations{};
  SkipRules skips{};
  // Number of rollbacks so far (train.rollback).
  std::int64_t rollbacks = 0;
  // True if this process has rolled back to a checkpoint, and not just started.
  bool has_rolled_back = false;
};

// How a training loop ended.
enum class Ending : std::uint8_t {
  done,        // after the last step, or because evaluate.patience is exhausted
  stopped,     // stopped early, with a checkpoint to restart from
  rolled_back  // must continue from an earlier checkpoint (TrainLoop::rollback)
};

// A rollback to an earlier checkpoint, because steps in a row were skipped (train.rollback).
struct Rollback {
  std::int64_t last_good = 0;     // last step that was not skipped
  std::int64_t last_skipped = 0;  // last step of the run
  std::int64_t next_sample = 0;   // first sample that the run has not read
  std::string data_phases{};      // of the samples so far (RunExtra::data_phases)
};

// The training loop of a run.
class TrainLoop {
 public:
  // The constructor and run() are collective. All ranks make the same decisions.
  TrainLoop(LoopParts, LoopSettings, LoopStart);

  // Trains until the last step or until the run is stopped. Throws SharedError if the run fails.
  Ending run();
  // Returns the number of completed steps.
  std::int64_t step() const { return meta_.step; }
  const std::string& last_checkpoint() const { return saving_.last_checkpoint(); }
  // Returns the reason for which the run ended before its last step. Empty if it did not.
  const std::string& reason() const { return reason_; }
  // Returns how the run must continue. Empty unless run() returned Ending::rolled_back.
  const std::optional<Rollback>& rollback() const { return rollback_; }
  // Returns text for the end of the run: the duration and the mean rate of this part of the process
  // (LoopSettings::part_started), and the location of the results.
  std::string summary() const;
  // Returns the resources used so far on all ranks. Collective.
  RunTiming timing() const;

 private:
  // The common decision of all ranks at the end of a step.
  struct Decision {
    const char* stop;  // the reason to stop, or an empty text
    bool checkpoint, save_due, writing, droppable;
  };
  Decision decide();
  // If a file stop_now or checkpoint_now is in the run directory, returns the request that the file
  // makes and removes the file.
  RunRequest asked_by_file();
  bool on_any_rank(bool here) const;
  Ending run_steps();
  std::vector<Batch> microbatches_of_step();
  // Runs one step. Returns false if the step was dropped because it would have delayed a checkpoint
  // that a signal requested.
  bool one_step();
  // Records that a step has begun, so that a signal that arrives from now on is logged as arriving
  // during that step.
  void announce_step();
  // Returns true if finishing the step on this rank would delay a checkpoint that a signal
  // requested by more than run.signal_grace.
  bool is_too_long(std::chrono::steady_clock::time_point begin, int done, int of) const;
  void count_skipped(const StepResult&, SampleRange);
  // Returns true, and sets rollback_, if the run must roll back to a checkpoint. Collective.
  bool decide_rollback();
  // Returns true while steps in a row are skipped and train.rollback is set. Checkpoints of these
  // steps have the same weights as that before them, and would only replace it.
  bool may_roll_back_soon() const {
    return settings_.train.rollback > 0 && meta_.extra.skipped_in_row > 0;
  }
  void judge_fault(const std::string& fault);
  // Writes the step's table row and log line. `sent` is the payload in bytes that this rank sent.
  void report(const StepResult&, double lr, double seconds, std::int64_t sent);
  // Compares the work of the ranks since the previous log line, and warns of slow hosts.
  // Collective.
  void compare_ranks();
  // Evaluates the model on the named validation sets. Returns false if a signal interrupted the
  // evaluation.
  bool evaluate_now(const std::vector<std::string>& sets);
  bool evaluate_set(const ValidationData&);
  // Reports the weighted mean of the sets, unless a set has no row of this step.
  void report_mean();
  // Evaluates the model. Returns false if the run must stop because of a signal. After a complete
  // evaluation of the last step, always returns true.
  bool evaluate_and_go_on(const std::vector<std::string>& sets);
  // Generates and logs a sample text if one is due. If a signal interrupts the generation, nothing
  // is logged.
  void sample_now();
  Saving::Last last_step() const;
  // Saves a checkpoint and rethrows the current SharedError, which must have left the model's state
  // intact. Do not call the function for other errors. They may occur on a single rank, and a
  // collective would then hang.
  void save_and_rethrow();
  bool evaluation_is_due(std::int64_t step) const;
  // Returns true if a decay of the learning rate ends with the last completed step.
  bool decay_has_ended() const { return meta_.extra.ends_decay > 0; }
  // Returns the number of samples in the next step.
  std::int64_t next_batch() const { return ramp_.batch(meta_.step); }
  // Ends the run if evaluate.patience is exhausted before the last step: sets the reason, saves a
  // checkpoint and returns true. Collective.
  bool end_if_patience_is_exhausted();
  double next_step_seconds() const;
  bool near_time_limit() const;
  double seconds_of_process() const;

  Trainer& trainer_;
  const Dataset& training_;
  std::span<const ValidationData> validation_;
  RunRecord& record_;
  SignalWatch& signals_;
  const Tokenizer* tokenizer_;
  LoopSettings settings_;
  CheckpointMeta meta_;
  std::vector<std::string> missing_evaluations_;
  BatchRamp ramp_;  // of the steps from the first one on
  std::int64_t total_steps_;
  std::int64_t first_step_;    // first step of this process
  std::int64_t first_tokens_;  // tokens before this process
  std::int64_t tokens_ = 0;    // tokens of this process's steps, without padding
  // Targets that counted in the loss of this process's updates.
  std::int64_t trained_ = 0;
  struct {
    std::int64_t tokens;  // tokens since then
    std::chrono::steady_clock::time_point at;
    double evaluating;  // seconds of evaluation since then
  } line_;              // the newest log line about a step
  Saving saving_;
  // Time at which the files stop_now and checkpoint_now were last looked for.
  std::chrono::steady_clock::time_point looked_at_{};
  StepTimes times_;
  std::string reason_;
  // True if the next step may take longer than run.signal_grace, so that a signal may drop it.
  bool droppable_ = true;
  // Error that occurred while the last row of history.csv was written, on rank 0.
  std::exception_ptr row_error_;
  Progress progress_;
  IdleExperts idle_experts_;
  SkipRules skips_;
  std::int64_t rollbacks_;  // so far
  std::optional<Rollback> rollback_;
  StalledTraining stalled_;
  std::optional<Stragglers> stragglers_;              // on rank 0, after the first log line
  std::array<double, task_count> seconds_at_line_{};  // of the Timesheet
  StepTrace trace_;
  // Log lines about signals, on rank 0.
  std::optional<SignalNotice> notice_;
  ReadAhead reading_;
};

}  // namespace trireme
