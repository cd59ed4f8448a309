#pragma once
// One of the two that are compared: a run directory, or a checkpoint with those of its run beside
// it.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/compare/tables.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

struct Side {
  std::string label;  // "A" or "B"
  std::filesystem::path path;
  bool is_run = false;
  std::int64_t step = 0;                    // of a checkpoint; the last in a run's history
  Deck deck;                                // of the checkpoint; of a run the newest
  std::optional<CheckpointMeta> meta;       // of the checkpoint, or the newest; none: it has none
  std::vector<CheckpointInfo> checkpoints;  // oldest first
  // Of a run.
  std::vector<HistoryRow> history;
  std::vector<EvaluationRow> evaluations;
  std::vector<DigestRow> digests;
};

// Error when the path is neither, or what it needs is damaged.
Side open_side(std::string label, const std::filesystem::path&);

// The checkpoint of this step, if it is there and whole by its sizes.
std::optional<CheckpointReader> checkpoint_of(const Side&, std::int64_t step);
// The newest before a step; none: the beginning.
std::optional<CheckpointInfo> checkpoint_before(const Side&, std::int64_t step);
// Steps of which both have one, ascending.
std::vector<std::int64_t> common_checkpoints(const Side& a, const Side& b);

// What a step was made with: the deck of the first checkpoint after it, else the side's.
Deck deck_of_step(const Side&, std::int64_t step);

// What the two were made with and differs, a line each: keys of the decks, then what checkpoints
// say of version, token files and the like.
std::vector<std::string> setting_differences(const Side& a, const Side& b);
// Of these lines those that make another training of it, rounding apart: not the grid, what is
// sharded, how a step is cut into microbatches, or what a run writes.
std::vector<std::string> other_training(const std::vector<std::string>& differences);

}  // namespace trireme
