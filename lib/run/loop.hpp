#pragma once
// The training loop: steps, evaluations, checkpoints and history, until the last step or a stop.
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
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

// Is an evaluation due after this step of a run that has held-out data?
bool evaluation_is_due(const EvaluateConfig&, std::int64_t step, std::int64_t total_steps);

struct LoopSettings {
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  EvaluateConfig evaluate;
  CheckpointConfig checkpoint;
  RunConfig run;                    // its time_limit counts from `started`
  double peak_flops = 0;            // a second and rank; 0: not known
  std::filesystem::path directory;  // the run's, to which all ranks save
  std::chrono::steady_clock::time_point started;
};

// The objects that a loop uses; all outlive it.
struct LoopParts {
  Trainer& trainer;
  const Dataset& training;
  const Dataset* validation;  // null: nothing is held out
  RunRecord& record;
  SignalWatch& signals;
  const Tokenizer* tokenizer = nullptr;  // null: no text of the model is asked for
};

// Where training starts or continues.
struct LoopStart {
  CheckpointMeta meta;              // of the checkpoint; a new run: step 0
  std::string restored{};           // the checkpoint restarted from; empty: none
  bool evaluation_missing = false;  // that of meta.step: the last process stopped before it
};

enum class Ending : std::uint8_t {
  done,
  stopped  // early, with a checkpoint to restart from
};

class TrainLoop {
 public:
  // Collective, as run(): all ranks take the same decisions.
  TrainLoop(LoopParts, LoopSettings, LoopStart);

  Ending run();
  std::int64_t step() const { return meta_.step; }  // finished steps
  const std::string& last_checkpoint() const { return saving_.last_checkpoint(); }
  const std::string& reason() const { return reason_; }  // why it stopped early
  // At the end: time, mean rate, and where the results are.
  std::string summary() const;
  // Collective: what the run took until now.
  RunTiming timing() const;

 private:
  // What the ranks agree on at the end of a step.
  struct Decision {
    const char* stop;  // why, or nothing
    bool checkpoint, save_due, writing, droppable;
  };
  Decision decide();
  // By the files stop_now and checkpoint_now in the run directory.
  RunRequest asked_by_file();
  bool on_any_rank(bool here) const;
  Ending run_steps();
  std::vector<Batch> microbatches_of_step();
  // False: it was dropped, as its end was too far off for a signal that came.
  bool one_step();
  // On this rank: would the checkpoint that a signal asks for come too late behind the whole step?
  bool is_too_long(std::chrono::steady_clock::time_point begin, int done, int of) const;
  void count_skipped(const StepResult&);
  void judge_fault(const std::string& fault);
  // `sent`: bytes of payload from this rank.
  void report(const StepResult&, double lr, double seconds, std::int64_t sent);
  // False when a signal interrupted it.
  bool evaluate_now();
  // Evaluates; false when the run has to stop: a signal came, unless all steps are made and
  // evaluated.
  bool evaluate_and_go_on();
  // A text of the model, where the deck wants one. One that a signal interrupts is left out.
  void sample_now();
  Saving::Last last_step() const;
  // Saves before a SharedError that leaves the model's state intact ends the run. After any other
  // error, which may be on one rank only, a collective would hang.
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
  std::int64_t first_step_;  // of this process
  std::int64_t tokens_ = 0;  // of its steps, padding left out
  struct {
    std::int64_t tokens;  // since
    std::chrono::steady_clock::time_point at;
    double evaluating;  // seconds since
  } line_;              // the newest of the log's lines about a step
  Saving saving_;
  std::chrono::steady_clock::time_point looked_at_{};  // for the files that ask
  StepTimes times_;
  std::string reason_;
  bool droppable_ = true;         // the next step may take longer than run.signal_grace
  std::exception_ptr row_error_;  // of the last row of history, on rank 0
  Progress progress_;
  IdleExperts idle_experts_;
  StepTrace trace_;
  ReadAhead reading_;
};

}  // namespace trireme
