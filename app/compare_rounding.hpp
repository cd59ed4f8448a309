#pragma once
// Decides whether two runs differ only by rounding. Steps are replayed with random changes of all
// results, whose size is that of possible rounding errors (lib/compare/rounding.hpp).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/compare/report.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// Values of one number that both runs recorded.
struct RecordedPair {
  std::string name;
  double a, b;
};

// Differences between two runs A and B, for which `explain` decides whether rounding is the cause.
struct RoundingQuestion {
  // Deck with which run A computed the steps.
  Deck deck;
  // Path of a checkpoint that is equal in both runs. Empty means the beginning of the run.
  std::string from;
  std::int64_t from_step = 0;
  // Step whose loss, gradient norm and gradients are judged. 0 if there is none.
  std::int64_t step = 0;
  std::vector<RecordedPair> numbers;
  TensorDifferences gradients;
  // Step after which the state is judged. 0 if there is none.
  std::int64_t state_step = 0;
  TensorDifferences state;

  // Returns the last step to be replayed.
  std::int64_t last() const { return std::max(step, state_step); }
};

// Whether rounding explains the differences.
enum class Explained : std::uint8_t {
  yes,
  no,
  // Rounding explains the loss and the gradient norm, and there are no tensors to judge.
  numbers_alone
};

// Replays the steps and adds the verdict to the report.
Explained explain(const RoundingQuestion&, const ModelPlaces&, Report&);

}  // namespace trireme
