#pragma once
// The checkpoints of a run: lists them, finds the newest good one, removes old ones and what
// interrupted saves left.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/checkpoint.hpp"

namespace trireme {

struct CheckpointInfo {
  std::filesystem::path directory;
  std::int64_t step = 0;
};

// Oldest first, including damaged ones and those that an interrupted replacement left under their
// hidden name; empty if the directory does not exist.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& checkpoints);

// Does a run give this name to a directory of its checkpoints: "step-00000009", one that was set
// aside, or what an interrupted save or removal leaves?
bool is_checkpoint_entry(std::string_view name);

// The files that one of several checkers reads: every `of`-th from `index` on.
struct Share {
  int index = 0, of = 1;
};
// What is wrong with a checkpoint, and whether `inspect --repair` may restore it; nothing when it
// is intact.
std::optional<std::string> damage_of(const std::filesystem::path& checkpoint, Check, Share = {});

struct NewestIntact {
  std::optional<CheckpointInfo> found;
  std::vector<std::string> skipped;  // newer ones, each with its reason
};
NewestIntact newest_intact(const std::filesystem::path& checkpoints, Check);

// A checkpoint directory, or the newest intact checkpoint of a run directory, with a warning for
// each newer one that is damaged. Error when it is neither.
std::filesystem::path find_checkpoint(const std::filesystem::path&);

// Keeps the newest `keep_last` good ones (by their sizes; 0: all), every step that `keep_every`
// divides (0: none) and whatever is newer than the oldest of those.
void prune(const std::filesystem::path& checkpoints, std::int64_t keep_last,
           std::int64_t keep_every);

// For a run that continues from `step`: renames later checkpoints to "left-step-00000009", so that
// they are not listed; nothing is deleted. Returns their new names.
std::vector<std::filesystem::path> set_aside_after(const std::filesystem::path& checkpoints,
                                                   std::int64_t step);

// Renames back what an interrupted replacement left under its hidden name. On one rank, at start.
void put_back_replaced(const std::filesystem::path& checkpoints);

// The same, and removes what interrupted saves and prunes left behind. On one rank, at start,
// before anything is saved. Returns what was removed.
std::vector<std::filesystem::path> clean_checkpoints(const std::filesystem::path& checkpoints);

}  // namespace trireme
