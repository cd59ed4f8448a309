#pragma once
// Whether two runs differ by rounding alone: their steps made again, moved at random by what
// rounding may move them (lib/compare/rounding.hpp says how that is judged).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/compare/report.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// A number that both recorded.
struct RecordedPair {
  std::string name;
  double a, b;
};

struct RoundingQuestion {
  Deck deck;         // with which A made these steps
  std::string from;  // a checkpoint that both have alike; empty: the beginning
  std::int64_t from_step = 0;
  // A step's loss, norm and gradients.
  std::int64_t step = 0;  // 0: none
  std::vector<RecordedPair> numbers;
  TensorDifferences gradients;
  // The state after a step.
  std::int64_t state_step = 0;  // 0: none
  TensorDifferences state;

  std::int64_t last() const { return std::max(step, state_step); }
};

enum class Explained : std::uint8_t {
  yes,
  no,
  numbers_alone  // loss and norm are, and there are no tensors to judge
};

// Makes the steps again and says in the report what comes of it.
Explained explain(const RoundingQuestion&, const ModelPlaces&, Report&);

}  // namespace trireme
