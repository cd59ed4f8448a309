#pragma once
// Lists a run's checkpoints, finds the newest intact one, and removes old checkpoints and the
// remains of interrupted saves.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/checkpoint.hpp"
#include "lib/io/config.hpp"

namespace trireme {

// A checkpoint directory and its step.
struct CheckpointInfo {
  std::filesystem::path directory;
  std::int64_t step = 0;
};

// Returns all checkpoints, oldest first, including damaged ones. The list includes checkpoints that
// still have a hidden name because their replacement was interrupted. Returns an empty list if the
// directory does not exist.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& checkpoints);

// Returns the checkpoints whose files have the right sizes, oldest first. Logs a warning for each
// other one.
std::vector<CheckpointInfo> intact_checkpoints(const std::filesystem::path& checkpoints);

// Returns true if runs create entries with this name in their checkpoints directory:
// "step-00000009", a checkpoint that was set aside, or the remains of an interrupted save or
// removal.
bool is_checkpoint_entry(std::string_view name);

// One checker's share of the files, if several checkers divide the work: every `of`-th file,
// beginning with file `index`.
struct Share {
  int index = 0, of = 1;
};
// Returns nullopt if the checkpoint is intact. Otherwise returns a description of the damage that
// also says whether `inspect --repair` may repair it.
std::optional<std::string> damage_of(const std::filesystem::path& checkpoint, Check, Share = {});

// A damaged checkpoint, and a description of the damage.
struct SkippedCheckpoint {
  std::filesystem::path directory;
  std::string damage;
};
// Result of newest_intact().
struct NewestIntact {
  std::optional<CheckpointInfo> found;
  // Newer checkpoints, which are damaged.
  std::vector<SkippedCheckpoint> skipped;
};
// Finds the newest intact checkpoint of a run, ignoring the checkpoints in `without`. Check says
// how thoroughly each checkpoint is checked.
NewestIntact newest_intact(const std::filesystem::path& checkpoints, Check,
                           const std::set<std::filesystem::path>& without = {});

// Removes old checkpoints according to the config. Keeps four kinds of checkpoints: the newest
// `keep_last` intact ones and all newer than these; the best `keep_best` intact ones and all
// damaged ones that rank better; those whose step is a multiple of `keep_every`; those at the end
// of a decay of the learning rate (RunExtra::ends_decay). Intact means that all files have the
// right sizes. `best_first` lists the steps of evaluations, the best one first; steps without a
// checkpoint are ignored. If `keep_last` is 0, removes nothing.
void prune(const std::filesystem::path& checkpoints, const CheckpointConfig&,
           std::span<const std::int64_t> best_first = {});

// Sets aside the checkpoints after `step`, for a run that continues from `step`. They are renamed
// to names like "left-step-00000009", so that they are no longer listed. Nothing is deleted.
// Returns the new names.
std::vector<std::filesystem::path> set_aside_after(const std::filesystem::path& checkpoints,
                                                   std::int64_t step);

// Restores the name of a checkpoint that still has a hidden name because its replacement was
// interrupted. One rank calls this at the start of a run.
void put_back_replaced(const std::filesystem::path& checkpoints);

// Restores names like put_back_replaced(), and removes the remains of interrupted saves and
// removals. One rank calls this at the start of a run, before the first save. Returns the removed
// paths.
std::vector<std::filesystem::path> clean_checkpoints(const std::filesystem::path& checkpoints);

}  // namespace trireme
