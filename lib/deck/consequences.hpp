#pragma once
// The consequences of deck keys that have other values than in the checkpoint from which a run
// begins. Each key of a deck is in a table of consequences, or in a list of keys without any.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

// How a run begins from a checkpoint.
enum class Beginning : std::uint8_t {
  restart,      // continues the training with its optimizer state and the next samples
  from_weights  // starts a new training with the weights (model.init_from)
};

// What a consequence affects. Evaluations leave the course of training as it is.
enum class Affects : std::uint8_t { rounding, evaluations, course };

struct Consequence {
  Affects affects;
  std::string causes;  // names of keys, or "validation data"
  std::string effect;  // a sentence without a period

  std::string text() const { return causes + ": " + effect; }
};

// A run that begins from a checkpoint. Both decks are resolved.
struct ContinuedRun {
  const Deck& before;              // in the checkpoint
  const Deck& after;               // of the run
  const CheckpointMeta& meta;      // of the checkpoint
  std::int64_t samples_per_epoch;  // with the deck `after`
  // Names of the validation sets whose tokens are not those of the checkpoint's run. The name of
  // data.validation is empty. If absent, the paths of the sets are compared instead.
  std::optional<std::vector<std::string>> changed_sets{};
};

// Returns the consequences of the keys and validation sets that differ, in the order of the table.
// A change without an effect, such as a setting of a feature that is off, has none.
std::vector<Consequence> consequences(const ContinuedRun&, Beginning);

// How keys are treated, for tests: the keys of the table, the keys whose changes have no
// consequence for the course, and the keys that other code compares with the checkpoint.
struct TreatedKeys {
  std::vector<std::string> consequence, nothing, elsewhere;
};
TreatedKeys treated_keys();

}  // namespace trireme
