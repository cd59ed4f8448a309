#pragma once
// Writes checkpoints of a model's state, either immediately or from a copy while training
// continues.
//
// Every rank writes its part (rank_slices) into its own file. Then rank 0 publishes all files
// together. In the background, a thread on each rank does this work. The thread accesses only files
// and host memory. Ranks communicate only inside advance(). HDF5 is not thread-safe, so other code
// must not use HDF5 while a thread is active, except through Hdf5Sink.
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/background_work.hpp"
#include "lib/comm/axes.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/train/snapshot.hpp"

namespace trireme {

// Returns the update counts of all parameters of the model (CheckpointMeta::updates). Collective.
std::map<std::string, std::int64_t> updates_of(const Store&, const Axes&);

// Throws StateFault if `not_finite` is not empty on any rank. `not_finite` names an array of this
// rank's state that is infinite or NaN. `step` is the step of the state, for the error message.
// Collective.
void require_finite(const Communicator& world, std::int64_t step, const std::string& not_finite);

// Writes the checkpoints of one model, one at a time. All functions except reserve() and working()
// are collective. A failure throws a SharedError. It leaves older checkpoints untouched, and the
// next checkpoint may begin. If weights or optimizer arrays are not finite on any rank, the error
// is a StateFault.
class StateSaver {
 public:
  // `require_lock` is called on rank 0, possibly by the background thread. It throws if another
  // process owns the directory now. In that case nothing in the directory is written, removed or
  // published.
  StateSaver(
      const Store&, const Axes&, std::filesystem::path checkpoints,
      std::function<void()> require_lock = [] {});
  // Waits for the thread. Files that have not been published are removed at the next start of the
  // run.
  ~StateSaver();

  // Current size of the arrays in bytes, which is nearly the size of a checkpoint.
  struct Size {
    double all = 0, largest = 0;  // sum over all ranks, and maximum over ranks
  };
  Size size() const;
  // Writes a checkpoint and returns its directory. Adds the update counts to `meta`.
  std::filesystem::path save(CheckpointMeta meta);

  // Allocates the memory that begin() currently needs on this rank.
  void reserve() { snapshot_.reserve(store_); }
  // Copies the state and starts writing the copy in the background. No other checkpoint may be in
  // progress.
  void begin(CheckpointMeta meta);
  // Starts writing a checkpoint of a state that has already been copied. A rank with a shard in a
  // memory copy writes from this shard, and a rank without one from snapshot(). Either all ranks
  // with slices have a shard, or no rank has one.
  void begin(CopiedState);
  bool busy() const { return phase_ != Phase::idle; }
  // The memory for copies of the state. The caller may use it while no checkpoint is in progress,
  // or while a checkpoint is written from the shards of a memory copy.
  Snapshot& snapshot() { return snapshot_; }
  // Returns true if advance() would block on this rank.
  bool working() const { return work_.running(); }
  // Completes the current phase and starts the next one. Blocks if the thread of any rank is still
  // working. Returns the checkpoint's directory after the last phase.
  std::optional<std::filesystem::path> advance();
  // Returns how many seconds this rank's part of the newest checkpoint took, excluding waits for
  // training and other ranks.
  double seconds() const { return seconds_; }
  // Completes all remaining phases and returns the checkpoint's directory.
  std::filesystem::path finish();

 private:
  enum class Phase : std::uint8_t { idle, writing, publishing };
  // Creates the directory in which the checkpoint is written. `meta` has the update counts.
  void open(CheckpointMeta&&);
  void write(const SliceSource&);
  void write_copied(const CopiedState::Shard&);
  // Starts the thread that writes this rank's part, from `copied` or from the snapshot.
  void start_writing(std::optional<CopiedState::Shard> copied);
  void timed(const std::function<void()>&);
  void collect();
  void publish_all();
  void abandon();
  // Runs a phase. After a failure, no checkpoint is in progress.
  void guarded(const std::function<void()>&);

  const Store& store_;
  const Axes& axes_;
  std::filesystem::path checkpoints_;
  std::function<void()> require_lock_;
  CheckpointMeta meta_;
  RankSlices mine_;
  std::filesystem::path partial_;
  FileRecord written_;                 // by this rank
  std::string not_finite_;             // names the array that is not finite; empty if all are
  std::vector<FileRecord> collected_;  // on rank 0
  std::string published_;              // on rank 0
  double seconds_ = 0;
  Snapshot snapshot_;
  Phase phase_ = Phase::idle;
  BackgroundWork work_;  // declared last, so that it ends before the members it uses
};

}  // namespace trireme
