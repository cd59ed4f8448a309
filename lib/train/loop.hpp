#pragma once
// The run: steps, evaluations, checkpoints, history, until it is done or asked to stop.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/config.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/io/run_tables.hpp"
#include "lib/train/config.hpp"
#include "lib/train/progress.hpp"
#include "lib/train/signals.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

struct LoopSettings {
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  EvaluateConfig evaluate;
  CheckpointConfig checkpoint;
  std::int64_t log_every = 1;
  double time_limit = 0;  // seconds since `started`; 0: none
  std::chrono::steady_clock::time_point started;
};

enum class Ending : std::uint8_t {
  done,
  stopped  // early, with a checkpoint to go on from
};

class TrainLoop {
 public:
  // `meta` is where training goes on (a fresh one: step 0) and what every checkpoint says of the
  // run; `restored`: history continues after meta.step. All references outlive the loop.
  TrainLoop(Trainer&, const Dataset& training, const Dataset* validation, const RunDirectory&,
            LoopSettings, CheckpointMeta meta, bool restored);

  Ending run();
  std::int64_t step() const { return meta_.step; }  // finished steps
  const std::string& last_checkpoint() const { return last_checkpoint_; }
  const std::string& reason() const { return reason_; }  // why it stopped early

 private:
  void one_step();
  void judge(const StepResult&);
  void report(const StepResult&, double lr, double seconds);
  void evaluate_now();
  void save_now();
  bool save_is_due() const;
  // Why the run should stop now; empty: it should not.
  std::string stop_reason(Asked) const;
  double elapsed() const;

  Trainer& trainer_;
  const Dataset& training_;
  const Dataset* validation_;
  const RunDirectory& directory_;
  LoopSettings settings_;
  CheckpointMeta meta_;
  std::int64_t total_steps_, step_tokens_;
  std::int64_t first_step_;  // of this process
  std::int64_t skipped_in_row_ = 0;
  std::int64_t saved_step_ = -1;  // of the newest checkpoint
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  double save_seconds_ = 0, steps_seconds_ = 0;
  HistoryFile history_;
  std::optional<EvaluationFile> evaluations_;
  std::string last_checkpoint_, reason_;
  Progress progress_;
  SignalWatch signals_;
};

}  // namespace trireme
