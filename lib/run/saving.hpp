#pragma once
// Manages the checkpoints of a run: when a checkpoint is due, how it is written, and what happens
// if writing fails.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/config.hpp"
#include "lib/run/record.hpp"
#include "lib/train/copy_saver.hpp"
#include "lib/train/state_saver.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Assumed rate in bytes per second and rank until the first checkpoint has been measured.
inline constexpr double save_rate = 100e6;

// The checkpoints of a run. All functions except const queries are collective.
class Saving {
 public:
  // `start` is the state from which the run starts, and `restored` its checkpoint, or empty if
  // there is none. `ranking` decides which checkpoints are the best. Keeps references to the
  // trainer and the record, which must outlive it. If checkpoints are asynchronous or there are
  // memory copies, allocates memory for a copy of the state.
  Saving(Trainer&, RunRecord&, CheckpointConfig, EvaluationRanking ranking,
         std::filesystem::path run, const CheckpointMeta& start, std::string restored);

  // Returns true if the deck requires a checkpoint after `step`.
  bool is_due(std::int64_t step) const;
  // busy() returns true if a checkpoint is in progress. writing() returns true if this rank is
  // still writing its part of the checkpoint, or of the memory copy from which it is written.
  bool busy() const { return saver_.busy() || waits_for_copy_; }
  bool writing() { return saver_.working() || (waits_for_copy_ && copying()); }
  // Returns the estimated seconds for all writing that would be necessary if the run ended now.
  double estimate() const;
  const std::string& last_checkpoint() const { return last_checkpoint_; }
  // Logs a warning if the disk has less free space than the checkpoints will need, with one for
  // each of `decays` decays of the learning rate. Call it on rank 0.
  void warn_of_space(std::int64_t decays) const;

  // The step with which the run ends, if it is known. A failure of that step's checkpoint throws
  // SharedError. Failures of earlier checkpoints are then only logged, so that the last checkpoint
  // is still written. If Last is empty, checkpoint.on_error decides what happens after a failure.
  using Last = std::optional<std::int64_t>;
  // Writes the checkpoint and blocks until it is complete. Does nothing if this step's checkpoint
  // exists. Like the next two functions, throws StateFault and writes nothing if the state changed
  // unexpectedly or is not finite.
  void save_at_once(CheckpointMeta&, Last);
  // Starts writing the checkpoint in the background if checkpoint.async is set. Otherwise writes it
  // immediately. If there are memory copies, begins one, and writes the checkpoint from its shards
  // when it is complete. Further copies can then be made while the checkpoint is being written.
  void save_as_usual(CheckpointMeta&);
  // Advances a checkpoint in progress by one phase. Blocks until the current phase is complete.
  void advance(Last);

  // Returns true if the deck requires a memory copy after `step`.
  bool copy_is_due(std::int64_t step) const;
  // copy_is_busy() returns true if a memory copy is in progress. copying() returns true if this
  // rank is still working on it.
  bool copy_is_busy() const { return copies_ && copies_->busy(); }
  bool copying() { return copies_ && copies_->working(); }
  // Begins a memory copy, unless another copy is in progress, or a checkpoint in progress needs the
  // snapshot or the files that the copy would overwrite. A failure is only logged. Like
  // save_at_once(), throws StateFault and copies nothing if the state changed unexpectedly.
  void copy_to_memory(CheckpointMeta&);
  // Completes a memory copy in progress. Blocks until all ranks have done their part. If a
  // checkpoint waits for the copy, starts to write it, from the snapshot if the copy failed. A
  // failure of the copy is only logged. Throws StateFault if the copied state is not finite.
  void finish_copy(Last last = {});
  // Removes all memory copies of this start of the run, when it has ended. A failure is only
  // logged.
  void remove_copies();
  // After an error: like remove_copies(), but keeps the newest copy if it is newer than all
  // checkpoints.
  void leave_copies();

  // Completes a checkpoint in progress when a run ends with an error. A failure is logged and not
  // thrown, so that the run's own error is reported.
  void finish();
  // Logs, once for all ranks, that `step` has no checkpoint.
  void log_no_checkpoint(const SharedError&, std::int64_t step) const;

 private:
  void complete(const std::filesystem::path&);
  void failed(const SharedError&, std::int64_t step, Last) const;
  void require_lock() const;
  void begin(CheckpointMeta&);
  // Returns true if a memory copy cannot begin because of the checkpoint in progress.
  bool checkpoint_blocks_copies() const;
  std::string begin_copy(CheckpointMeta&);
  void write_from_copy(Last);
  void log_copy(const std::string& failure, std::int64_t step);

  Trainer& trainer_;
  const Communicator& world_;
  RunRecord& record_;
  CheckpointConfig config_;
  EvaluationRanking ranking_;
  std::filesystem::path run_;
  StateSaver saver_;
  std::optional<CopySaver> copies_;  // declared after saver_, whose snapshot it uses
  bool waits_for_copy_ = false;      // the checkpoint in progress waits for its memory copy
  bool from_copy_ = false;           // it is written from the shards of its memory copy
  std::int64_t copied_step_ = 0;     // of the newest memory copy that was begun
  std::int64_t copies_made_ = 0;     // number of complete memory copies
  double copies_waited_ = 0;         // seconds that training waited for memory copies
  std::chrono::steady_clock::time_point copy_begin_{};  // of the newest memory copy
  double copy_seconds_ = 0;       // from the beginning of a copy until all ranks completed it
  bool copies_wait_ = false;      // a copy was due while a checkpoint was being written
  bool copies_are_late_ = false;  // a copy was due while another one was in progress
  bool copies_fail_ = false;      // the newest memory copy failed
  StateSaver::Size size_;
  std::string last_checkpoint_;
  std::int64_t saved_step_;  // of the newest checkpoint; -1 means none
  struct {
    std::int64_t step = 0;
    std::chrono::steady_clock::time_point begin;
    double waited = 0;  // seconds that training waited
  } now_;               // the checkpoint in progress
  std::chrono::steady_clock::time_point tried_ = std::chrono::steady_clock::now();
  double seconds_ = 0;  // that the last checkpoint took on this rank
};

}  // namespace trireme
