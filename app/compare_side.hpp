#pragma once
// One side of a comparison: a run directory, or a checkpoint together with the other checkpoints in
// its directory.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/compare/tables.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// One side of a comparison. Histories and digests exist only for run directories.
struct Side {
  std::string label;  // "A" or "B"
  std::filesystem::path path;
  bool is_run = false;
  // Step of the checkpoint, or the last step in the run's history.
  std::int64_t step = 0;
  // Deck of the checkpoint, or the run's newest deck.
  Deck deck;
  // State of the checkpoint, or of the run's newest intact checkpoint. Absent if there is none.
  std::optional<CheckpointMeta> meta;
  std::vector<CheckpointInfo> checkpoints;  // oldest first
  // Rows of the run's tables.
  std::vector<HistoryRow> history;
  std::map<std::string, std::vector<EvaluationRow>> evaluations;  // by validation set
  std::vector<DigestRow> digests;
};

// Opens a run directory or checkpoint for comparison. Throws Error if the path is neither a run
// directory nor a checkpoint, or if a required file is damaged.
Side open_side(std::string label, const std::filesystem::path&);

// Opens the checkpoint of `step`. Returns nullopt if there is no such checkpoint, or if its files
// have the wrong sizes.
std::optional<CheckpointReader> checkpoint_of(const Side&, std::int64_t step);
// Returns the newest intact checkpoint before `step`. Returns nullopt if there is none.
std::optional<CheckpointInfo> checkpoint_before(const Side&, std::int64_t step);
// Returns the steps for which both sides have checkpoints, in ascending order.
std::vector<std::int64_t> common_checkpoints(const Side& a, const Side& b);

// Returns one line for each setting that differs between the two sides. The first lines are keys of
// the decks. The other lines are the program's version, the token files and similar properties of
// the checkpoints.
std::vector<std::string> setting_differences(const Side& a, const Side& b);
// Returns the lines of `differences` that name settings which change the training by more than
// rounding. Leaves out the grid, sharding, micro-batches and output settings.
std::vector<std::string> other_training(const std::vector<std::string>& differences);

}  // namespace trireme
