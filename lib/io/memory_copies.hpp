#pragma once
// Memory copies: copies of a run's state in the memory file systems of its nodes, which outlive the
// processes of the run. `trireme rescue` turns them into a checkpoint. Each node has a directory
//
//   ${TRIREME_MEMORY_DIR:-/dev/shm}/trireme-UID/JOB/RUN/START/NODE/step-00000420/
//
// with the shards of the node's own ranks, shards of another node's ranks, the tokenizer, and
// copy.json. The latter has the form of a manifest and lists all shards of all nodes with the
// hashes of their bytes. While a copy is being written, its directory has the hidden name
// `.step-00000420.partial`. When a newer copy is complete on all nodes, the older copy becomes the
// node's spare, with the hidden name `.spare`. The next copy overwrites the spare's files, because
// the system would have to clear the memory of new files.
//
// NODE is "node-" and the first rank of the node, so that nodes may share a memory file system, as
// containers on one machine do. START identifies the start of the run. The file memory_copies.json
// in the run directory names the newest start, so that copies that an earlier start left on some
// node are never used. If a job rolls back or restarts, the state of the same step may differ.
//
// Functions that are not noexcept throw Error if the file system fails.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/checkpoint.hpp"

namespace trireme {

// The name of the file in the run directory, and of the record in each copy.
inline constexpr std::string_view copy_owner_name = "memory_copies.json",
                                  copy_record_name = "copy.json";

// The start of a run to which memory copies belong.
struct CopyOwner {
  std::string run;    // CheckpointMeta::run
  std::string start;  // a random id
  bool operator==(const CopyOwner&) const = default;
};
// Reads the file in the run directory. Returns nullopt if there is none. Throws Error if the file
// is damaged.
std::optional<CopyOwner> read_copy_owner(const std::filesystem::path& run);
void write_copy_owner(const std::filesystem::path& run, const CopyOwner&);
void remove_copy_owner(const std::filesystem::path& run);

// Returns the directory of this user's memory copies on this node. The path contains `test_node`,
// the result of launch::test_node(). Throws Error if TRIREME_MEMORY_DIR is invalid.
std::filesystem::path memory_root(const std::string& test_node);
// Returns true if files in this directory, or in the directory in which it will be created, take
// memory and not space on a disk.
bool is_in_memory(std::filesystem::path directory);
// Creates memory_root(). Throws Error if it cannot be created, or belongs to another user.
void make_memory_root(const std::filesystem::path& root);
// Returns the directory of a node's copies of a start of a run, in this batch job. `leader` is the
// first rank of the node. Throws Error if the job's id cannot be a file name.
std::filesystem::path copies_of(const std::filesystem::path& root, const CopyOwner&, int leader);

// In the following functions, `copies` is the directory that copies_of() returns.

// Returns the directory in which the copy of a step is written.
std::filesystem::path partial_copy(const std::filesystem::path& copies, std::int64_t step);
// Creates this directory. If the node has a spare, the directory contains the spare's shards, which
// are to be overwritten.
void begin_copy(const std::filesystem::path& copies, std::int64_t step);
// Adds the tokenizer and copy.json to the directory in which a copy is written.
void add_copy_record(const std::filesystem::path& partial, std::string_view record,
                     std::string_view tokenizer);
// Gives a written copy its name.
void publish_copy(const std::filesystem::path& copies, std::int64_t step);
// Removes the copy of a step, whether it is complete or not. Never throws.
void drop_copy(const std::filesystem::path& copies, std::int64_t step) noexcept;
// Leaves the copy of `step` as the only one that held_copies() finds. If the node has no spare,
// another copy becomes the spare. All further copies are removed. Never throws.
void retire_other_copies(const std::filesystem::path& copies, std::int64_t step) noexcept;

// A complete copy on this node.
struct HeldCopy {
  std::int64_t step = 0;
  std::filesystem::path directory;
};
// Returns the copies of a start of a run that this node can read, in the directories of all jobs
// and nodes.
std::vector<HeldCopy> held_copies(const std::filesystem::path& root, const CopyOwner&);
// Returns the bytes of all files that remove_copies() would remove.
double bytes_of_copies(const std::filesystem::path& root, const CopyOwner&);
// Removes all copies of a start of a run on this node, in the directories of all jobs. The
// directories of jobs stay, because another run of the job may be creating its own there. Never
// throws.
void remove_copies(const std::filesystem::path& root, const CopyOwner&) noexcept;

}  // namespace trireme
