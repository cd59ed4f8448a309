#pragma once
// Saving, in three steps so that many ranks can share them: one rank begins, every rank writes its
// shard (lib/io/shard_file.hpp), one rank publishes. Everything is written under the hidden name
// `.step-00000420.partial` and appears by one rename, so a crash leaves either a whole checkpoint
// or debris that is never listed. A save that fails touches no older checkpoint.
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "lib/io/checkpoint.hpp"
#include "lib/io/shard_file.hpp"

namespace trireme {

std::string checkpoint_name(std::int64_t step);  // "step-00000420"
// Suffixes of hidden names beside it, ".step-00000420.partial": being written; moved aside while
// another is put in its place; being removed.
inline constexpr std::string_view partial_suffix = ".partial", replaced_suffix = ".replaced",
                                  removed_suffix = ".removed";

// A new, empty partial directory in `checkpoints`, which must be there; what an earlier save of
// this step left is removed.
std::filesystem::path begin_save(const std::filesystem::path& checkpoints, std::int64_t step);

// After every shard is written: adds tokenizer, master file and, last, the manifest; renames.
// A checkpoint of the same step is replaced. Returns the checkpoint's directory. `require_lock`,
// called before anything is renamed, throws when another process took the directory over.
std::filesystem::path publish(const std::filesystem::path& checkpoints, const CheckpointMeta&,
                              std::vector<FileRecord> shards,
                              const std::function<void()>& require_lock = {});

// Removes what a failed save left; never throws.
void abandon_save(const std::filesystem::path& checkpoints, std::int64_t step) noexcept;

// All of it on one rank. Throws Error after cleaning up.
std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints,
                                      const CheckpointMeta&, std::span<const ParamSlice>,
                                      const SliceSource&);

}  // namespace trireme
