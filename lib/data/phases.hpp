#pragma once
// The phases of a run's training data: which files its samples come from, and from which sample on.
// A checkpoint stores them, so that a file that continues after a restart neither repeats nor loses
// a sample, even if the deck now has other files or shares.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/config.hpp"
#include "lib/data/order.hpp"

namespace trireme {

// All files of a run and its phases. The phases that have not begun are those of the deck.
struct DataHistory {
  // Identity of each file. The position of a file is its number (DataPhase::files).
  std::vector<std::string> files;
  std::vector<DataPhase> phases;
  bool operator==(const DataHistory&) const = default;
};

// Convert a history to JSON text, and back. history_from() returns an empty history if the text is
// empty, and throws Error if the text is not the JSON of a history.
std::string to_text(const DataHistory&);
DataHistory history_from(std::string_view text);

// Returns the deck's token files: those of data.path, and then those that only phases name, each
// once.
std::vector<std::string> training_files(const DataConfig&);

// Returns the files and shares of one phase of the deck. Phase 0 is [data] itself, and phase i is
// the i-th [[phase]] section.
PhaseConfig resolved_phase(const DataConfig&, std::size_t i);

// The phases of a run that begins or continues.
struct PhasePlan {
  DataHistory history;
  std::vector<std::int32_t> numbers;  // number of each of training_files()
};

// Plans a run that has read `samples` samples: the phases of `before` up to this sample, and the
// deck's phases from there on. `before` is empty for a new run and for a checkpoint of a version
// without phases. `identities` are those of training_files(), and first_samples[i] is the first
// sample of the i-th [[phase]] section. A section whose first sample is at most `samples` has
// begun.
//
// Without shares, the position in each of several files is unknown. If files or shares change after
// such a phase, the new phase counts from sample 0 on, and samples may repeat.
PhasePlan plan_phases(const DataHistory& before, std::int64_t samples, const DataConfig&,
                      std::span<const std::string> identities,
                      std::span<const std::int64_t> first_samples);

}  // namespace trireme
