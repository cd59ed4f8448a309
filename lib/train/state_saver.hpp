#pragma once
// Writes checkpoints of a model's state: at once, or from a copy while training goes on.
//
// Every rank writes what it reports into a file of its own, then rank 0 publishes them together.
// Behind training both are done by a thread of each rank, which sees files and host memory alone;
// what the ranks tell each other in between is said by advance(). HDF5 is not made for threads:
// nobody else may use it while a thread is at work.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/background_work.hpp"
#include "lib/comm/axes.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/train/snapshot.hpp"

namespace trireme {

// All but reserve() and working() is collective, and a failure is a SharedError: older checkpoints
// are then untouched, and the next one may be begun. Weights or arrays of the optimizer that are
// not finite on any rank are a StateFault.
class StateSaver {
 public:
  // `require_lock`, on rank 0, throws when the directory is another process's now: nothing there is
  // then written, removed or published. It may be called by the thread.
  StateSaver(
      const Store&, const Axes&, std::filesystem::path checkpoints,
      std::function<void()> require_lock = [] {});
  // Waits for its thread. What was not published is debris that the next start removes.
  ~StateSaver();

  // Bytes of the arrays as things stand, which is nearly a checkpoint's size.
  struct Size {
    double all = 0, largest = 0;  // of all ranks, of the one that writes most
  };
  Size size() const;
  // Returns the checkpoint's directory. Counts of updates are added to `meta`.
  std::filesystem::path save(CheckpointMeta meta);

  // Takes the memory that begin() needs as things stand, on this rank alone.
  void reserve() { snapshot_.reserve(store_, rank_slices(store_)); }
  // Copies the state; its writing begins. One at a time.
  void begin(CheckpointMeta meta);
  bool busy() const { return phase_ != Phase::idle; }
  // Would advance() wait on this rank?
  bool working() const { return work_.running(); }
  // The next phase of what was begun; the checkpoint's directory after the last. Where a rank's
  // thread is still at work, all wait for it.
  std::optional<std::filesystem::path> advance();
  // What this rank's part of the newest checkpoint took, without waits for training or others.
  double seconds() const { return seconds_; }
  // All phases that are left.
  std::filesystem::path finish();

 private:
  enum class Phase : std::uint8_t { idle, writing, publishing };
  // Creates the directory to write to.
  void open(CheckpointMeta&&);
  void write(const SliceSource&);
  void timed(const std::function<void()>&);
  void require_finite() const;
  void collect();
  void publish_all();
  void abandon();
  // Every phase: after a failure nothing is in progress.
  void guarded(const std::function<void()>&);

  const Store& store_;
  const Axes& axes_;
  std::filesystem::path checkpoints_;
  std::function<void()> require_lock_;
  CheckpointMeta meta_;
  RankSlices mine_;
  std::filesystem::path partial_;
  FileRecord written_;                 // by this rank
  std::string not_finite_;             // what of it; empty: all is
  std::vector<FileRecord> collected_;  // at rank 0
  std::string published_;              // at rank 0
  double seconds_ = 0;
  Snapshot snapshot_;
  Phase phase_ = Phase::idle;
  BackgroundWork work_;  // last: ends before what it uses
};

}  // namespace trireme
