#pragma once
// Saves checkpoints in three steps, so that ranks can share the work: one rank begins, every rank
// writes its shard (lib/io/shard_file.hpp), and one rank publishes. All files are written to a
// directory with the hidden name `.step-00000420.partial`. A single rename makes it visible. A
// crash therefore leaves either a complete checkpoint or remains that are never listed. A failed
// save does not affect older checkpoints.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "lib/io/checkpoint.hpp"
#include "lib/io/shard_file.hpp"

namespace trireme {

// Returns the name of a checkpoint's directory, for example "step-00000420".
std::string checkpoint_name(std::int64_t step);
// Suffixes of hidden directories such as ".step-00000420.partial". `partial_suffix` marks a
// checkpoint that is being written, `replaced_suffix` one that has been moved aside while another
// replaces it, and `removed_suffix` one that is being removed.
inline constexpr std::string_view partial_suffix = ".partial", replaced_suffix = ".replaced",
                                  removed_suffix = ".removed";
// Returns the path of the hidden directory of a step, with one of these suffixes.
std::filesystem::path hidden_path(const std::filesystem::path& checkpoints, std::int64_t step,
                                  std::string_view suffix);
// Returns the record of a file that contains `bytes`, without slices.
FileRecord record_of_bytes(std::string_view name, std::span<const std::byte> bytes);

// Creates a new, empty partial directory in `checkpoints` and returns its path. `checkpoints` must
// exist. Removes the remains of an earlier save of this step.
std::filesystem::path begin_save(const std::filesystem::path& checkpoints, std::int64_t step);

// Completes a save after all shards have been written. Adds the tokenizer, the master file and
// finally the manifest, and renames the directory. Replaces an existing checkpoint of the same
// step. Calls `require_lock` before the rename; it throws if another process has taken over the run
// directory. Returns the checkpoint's directory.
std::filesystem::path publish(const std::filesystem::path& checkpoints, const CheckpointMeta&,
                              std::vector<FileRecord> shards,
                              const std::function<void()>& require_lock = {});

// Removes the remains of a failed save. Never throws.
void abandon_save(const std::filesystem::path& checkpoints, std::int64_t step) noexcept;

// Saves a whole checkpoint on one rank. If that fails, removes what has been written and throws
// Error.
std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints,
                                      const CheckpointMeta&, std::span<const ParamSlice>,
                                      const SliceSource&);

}  // namespace trireme
