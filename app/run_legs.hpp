#pragma once
// The legs of a run. A leg begins with a start of the run or a rollback, and ends
// before the next one. All steps of a leg have the same deck.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "app/compare_side.hpp"
#include "lib/data/dataset.hpp"
#include "lib/io/table_rows.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

// One leg. The last leg of a run has no end yet.
struct Leg {
  Deck deck;
  CheckpointMeta begin;  // steps, samples, tokens and phases of the data before the leg
  // Last step that a later leg did not replace.
  std::int64_t last_step = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_sample = std::numeric_limits<std::int64_t>::max();
  // Hash of the identities of the leg's token files. Empty if it is unknown.
  std::string files{};
  // Why the data of the leg is unknown. Empty if it is known.
  std::string unknown{};

  // Returns the batches of the leg's steps.
  BatchRamp batches() const;
  // Returns the number of samples before this step.
  std::int64_t samples_before(std::int64_t step) const;
  // Returns the step that reads a sample of the leg.
  std::int64_t step_of(std::int64_t sample) const;
  // Opens the training data. Throws Error if the data is unknown, or if token files have changed
  // since the leg began.
  Dataset data() const;
};

// Returns the legs of a run, oldest first. Each leg begins with a later sample than the one before.
// If starts.json is missing or does not belong to the newest deck, logs a warning and derives the
// legs from the checkpoints.
std::vector<Leg> legs_of(const Side&);
// Returns the leg that trained a step, or will train it. Throws Error if the step is in another
// run.
const Leg& leg_of_step(const std::vector<Leg>&, std::int64_t step);
// The deck of consecutive steps, which may belong to several legs.
struct DeckOfSteps {
  Deck deck;                  // of the last step
  bool same_rounding = true;  // false if a setting that affects rounding changed between the steps
};
// Returns the deck with which consecutive steps were computed. Throws Error if a change of the deck
// or of the token files between the steps affects training. If starts.json does not contain the
// decks, returns the deck of the first intact checkpoint at or after the last step or, without such
// a checkpoint, the deck of the Side.
DeckOfSteps deck_of_steps(const Side&, const StepRange&);
// Returns the leg that reads a sample. Throws Error if the sample is in another run.
const Leg& leg_of_sample(const std::vector<Leg>&, std::int64_t sample);

}  // namespace trireme
