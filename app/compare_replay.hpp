#pragma once
// Replays steps of one side of a comparison on one rank, and compares the results with those that
// the run recorded.
#include <cstdint>
#include <optional>
#include <string>

#include "app/compare_side.hpp"
#include "lib/compare/report.hpp"

namespace trireme {

// Result of a replay.
struct Replayed {
  // Gradients, weights and optimizer state of the last replayed step.
  TensorValues values;
  // True if results differ from the recorded results although the bits must be equal.
  bool faulty = false;
};

// Throws Error if a deck gives another learning rate than the run recorded for a step after the
// checkpoint `from`, up to and including `last`. `from` is empty for the beginning of the run.
void require_recorded_rates(const Side&, const Deck&, const std::string& from, std::int64_t last);

// Replays a run up to `step`, from the nearest checkpoint of the run or from the beginning. Adds
// the outcome to the report. Returns nullopt if the replay is impossible or needs more than `most`
// steps.
std::optional<Replayed> replay(const Side&, std::int64_t step, std::int64_t most,
                               const ModelPlaces&, Report&);

}  // namespace trireme
