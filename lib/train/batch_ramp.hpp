#pragma once
// The number of samples in each step: train.batch, or fewer at the start of a run
// (train.batch_ramp). All functions are pure.
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "lib/train/config.hpp"

namespace trireme {

// A point in a run: the number of completed steps, and the number of tokens in these steps.
struct RunPoint {
  std::int64_t steps = 0, tokens = 0;
  bool operator==(const RunPoint&) const = default;
};

enum class RampUnit : std::uint8_t { steps, tokens };

// A level of the ramp: steps have `batch` samples until the run has completed `until` steps or
// tokens.
struct RampLevel {
  std::int64_t batch = 0, until = 0;
  RampUnit unit = RampUnit::steps;
  bool operator==(const RampLevel&) const = default;
};

// Parses texts such as "16 until 1000 steps" or "256 until 5e9 tokens". Throws Error if a text has
// another form, if batches or ends do not increase, or if the levels have different units.
std::vector<RampLevel> parse_batch_ramp(std::span<const std::string>);

// Returns the batches of the ramp, the smallest one first, and then train.batch. Throws Error as
// parse_batch_ramp() does.
std::vector<std::int64_t> batches_of(const TrainConfig&);

// Returns the greatest common divisor of all batches. Micro-batches fit the batches of all steps if
// they fit this one.
std::int64_t common_batch(const TrainConfig&);

// The batches of the steps after a point of a run. Earlier steps may have had other batches,
// because the deck may change at a restart. Steps count from 0. Results that exceed 2^63 - 1 are
// replaced by it.
class BatchRamp {
 public:
  BatchRamp() = default;  // one sample in each step
  // `context` is the number of tokens in a sample. Throws Error as parse_batch_ramp() does.
  BatchRamp(const TrainConfig&, std::int64_t context, RunPoint begin = {});

  // Returns the number of samples in a step. For steps before the first, returns that of the first.
  std::int64_t batch(std::int64_t step) const;
  // Returns the first step after `step` that has another batch, or 2^63 - 1 if there is none.
  std::int64_t next_change(std::int64_t step) const;
  // Returns the number of samples in the steps [first, end), without those before the beginning.
  std::int64_t samples(std::int64_t first, std::int64_t end) const;
  // Returns the smallest number of steps that have at least this many samples.
  std::int64_t steps_for(std::int64_t samples) const;
  // Returns the smallest number of completed steps in which the run has processed at least this
  // many tokens.
  std::int64_t steps_at(std::int64_t tokens) const;
  // Returns the point after `steps` completed steps of the run. Before the beginning, assumes the
  // batch of the first step.
  RunPoint point(std::int64_t steps) const;

 private:
  struct Part {
    std::int64_t batch = 1, end = std::numeric_limits<std::int64_t>::max();  // first step after it
  };
  std::int64_t context_ = 1;
  RunPoint begin_;
  const Part& part_of(std::int64_t step) const;

  // In order. The last one does not end.
  std::vector<Part> parts_ = std::vector<Part>(1);
};

// Returns the number of steps in a whole run that has reached `begin`: train.steps if it is set,
// otherwise the smallest number of steps that processes train.tokens tokens. `context` is the
// number of tokens in a sample.
std::int64_t total_steps(const TrainConfig&, std::int64_t context, RunPoint begin = {});
// Returns the end of a whole run.
RunPoint end_of_run(const TrainConfig&, std::int64_t context, RunPoint begin = {});

}  // namespace trireme
