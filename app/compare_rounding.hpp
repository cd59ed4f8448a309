#pragma once
// Decides whether two runs differ only by rounding. Steps are replayed several times, and every
// result is changed at random, by as much as rounding can change it (lib/compare/rounding.hpp).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/compare/report.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// The values of one number, such as a loss, that runs A and B recorded.
struct RecordedPair {
  std::string name;
  double a, b;
};

// Differences between two runs, A and B. explain() decides whether rounding is the cause of these
// differences.
struct RoundingQuestion {
  // Deck with which run A computed the steps.
  Deck deck;
  std::filesystem::path run;  // directory of run A
  // Path of a checkpoint from which the replays start, and which is equal in A and B. Empty if the
  // replays start at the beginning of the run.
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
