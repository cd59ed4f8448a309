#pragma once
// The part of a model's state that one rank writes to a checkpoint, and a copy of this part (the
// rank's snapshot), which does not change while training continues.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/posix_file.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/shard_file.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// Slices of weights and optimizer arrays, with the parameter that each slice belongs to.
struct RankSlices {
  std::vector<ParamSlice> slices;
  std::vector<ParamId> params;
};

// Returns the slices that this rank writes: its parts of the parameters that checkpoints contain
// (is_saved), except parts that another replica writes. Frozen parameters may have no optimizer
// arrays.
RankSlices rank_slices(const Store&);

// Returns the total size of the slices in bytes.
double bytes_of(const RankSlices&);

// Returns the total size of the slices that training changes: all except the weights and optimizer
// arrays of frozen parameters.
double changing_bytes(const Store&, const RankSlices&);

// Returns a source that reads elements from the store when write_shard requests them. The store
// must outlive the source.
SliceSource elements_of(const Store&, const RankSlices&);

// A training state that has been copied, so that its checkpoint can be written while training
// continues.
struct CopiedState {
  CheckpointMeta meta;  // with the update counts
  RankSlices mine;
  // The rank's shard in a complete memory copy (lib/io/memory_copies.hpp). Absent if the elements
  // are only in a Snapshot, or if the rank has none.
  struct Shard {
    FileRecord record;                // as in a manifest, with the hashes of the slices
    FileRecord byte_record;           // with the hash of all bytes of the file
    std::shared_ptr<PosixFile> file;  // is not overwritten while the checkpoint is being written
  };
  std::optional<Shard> shard{};
  // True if the shards of all ranks are in a complete memory copy. The snapshots are then not
  // needed.
  bool in_memory = false;
};

// A copy of the elements that a rank writes into a checkpoint.
class Snapshot {
 public:
  // Allocates pinned memory (MemoryKind::snapshot) for a copy. Ranks with equal shards allocate the
  // same amount. Later copies reuse the memory, or reallocate it if they are larger. Throws Error
  // if there is not enough memory.
  void reserve(const Store&);
  // Copies all elements. Calls reserve() first.
  void take(const Store&, const RankSlices&);
  // Returns a source of the copied elements. Any thread may use the source until the next take().
  SliceSource elements() const;

 private:
  Tensor copy_;
  std::map<std::pair<std::string, std::string>, std::int64_t> begins_;  // by (name, array)
};

}  // namespace trireme
