#pragma once
// Decides whether two runs differ by rounding only. Steps are replayed with results that are
// changed at random by as much as rounding may change them (lib/compare/rounding.hpp).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/compare/report.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// The values of one number that both runs recorded.
struct RecordedPair {
  std::string name;
  double a, b;
};

// Differences between two runs A and B, for which `explain` decides whether rounding is the cause.
struct RoundingQuestion {
  // The deck with which A made the steps.
  Deck deck;
  // Path of a checkpoint that is equal in both runs. Empty for the beginning of the run.
  std::string from;
  std::int64_t from_step = 0;
  // The step whose loss, gradient norm and gradients are judged. 0 if there is none.
  std::int64_t step = 0;
  std::vector<RecordedPair> numbers;
  TensorDifferences gradients;
  // The step after which the state is judged. 0 if there is none.
  std::int64_t state_step = 0;
  TensorDifferences state;

  // Returns the last step to be replayed.
  std::int64_t last() const { return std::max(step, state_step); }
};

// Whether rounding explains the differences.
enum class Explained : std::uint8_t {
  yes,
  no,
  // Rounding explains loss and gradient norm, and there are no tensors to judge.
  numbers_alone
};

// Replays the steps and adds the verdict to the report.
Explained explain(const RoundingQuestion&, const ModelPlaces&, Report&);

}  // namespace trireme
