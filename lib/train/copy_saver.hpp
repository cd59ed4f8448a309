#pragma once
// Makes memory copies of a run: copies of its state in the memory file systems of two nodes each
// (lib/io/memory_copies.hpp). While training continues, a thread of each rank writes the rank's
// shard, and CopyExchange brings it to the other node. All ranks complete a copy together.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/comm/axes.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/train/copy_exchange.hpp"
#include "lib/train/copy_nodes.hpp"
#include "lib/train/snapshot.hpp"

namespace trireme {

// Removes the memory copies of an earlier start of the run from the nodes of this job, and the file
// memory_copies.json, if there is one. Warns if a copy is newer than `step`, from which the run
// continues. This job must have locked the run directory. Collective.
void remove_earlier_copies(const Communicator& world, const std::filesystem::path& run,
                           std::int64_t step);

// The memory copies of one model. All functions except working() and const queries are collective.
class CopySaver {
 public:
  // `run` is the run directory, which this job has locked, and `run_id` is CheckpointMeta::run. The
  // store and axes must outlive the object. Throws SharedError if a directory cannot be created.
  CopySaver(const Store&, const Axes&, std::filesystem::path run, std::string run_id);
  ~CopySaver();

  // Takes a snapshot of the state and begins to copy it. No copy may be in progress, and nothing
  // else may use `snapshot` until writing is over. Overwrites the files of the copy of the step
  // overwrites(). Bytes that these files contain already, such as those of frozen weights, are
  // neither written nor sent again. Returns an empty text, or the reason why no copy begins.
  std::string begin(CheckpointMeta, Snapshot& snapshot);
  // Step of the retired copy whose files the next copy overwrites, or -1.
  std::int64_t overwrites() const { return retired_; }
  bool busy() const { return busy_; }
  // Returns true if finish() would block on this rank. Throws Error if a message failed.
  bool working();
  // Completes the copy in progress, and retires older ones. Blocks until all ranks have done their
  // part. Returns an empty text, or the reason why the copy was dropped; older copies then remain.
  // Throws StateFault if weights or optimizer arrays are not finite on any rank.
  std::string finish();
  // Returns how many bytes of its shard this rank has sent for the copy of the last begin().
  std::int64_t sent() const { return exchange_->sent(); }
  // Step of the newest complete copy, or -1.
  std::int64_t newest() const { return newest_; }
  // Returns the state that begin() copied last, with this rank's shard if finish() has completed
  // the copy. If a rank cannot open its shard, no rank has one.
  CopiedState copied() const;
  // Drops a copy in progress, and removes all copies of this start of the run.
  void remove_all();
  // Describes the copies for the log.
  std::string description() const;

 private:
  bool leads() const { return nodes_.leader == axes_.world.rank(); }
  std::optional<CopyExchange::WrittenShard> write_own(const Snapshot&);
  void drop();
  // Waits until all ranks have done their part.
  void wait_for_all();

  const Store& store_;
  const Axes& axes_;
  std::filesystem::path run_;
  CopyNodes nodes_;
  std::filesystem::path root_, copies_;
  CopyOwner owner_;
  CheckpointMeta meta_;
  RankSlices mine_;
  std::filesystem::path partial_;
  FileRecord shard_;  // this rank's, as in a checkpoint
  std::int64_t newest_ = -1, retired_ = -1;
  bool busy_ = false;
  std::unique_ptr<CopyExchange> exchange_;
};

}  // namespace trireme
