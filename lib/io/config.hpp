#pragma once
// When checkpoints are written and which are kept: the [checkpoint] section of a deck.
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// What a failed write does to the run.
enum class SaveFailure : std::uint8_t { stop, proceed };
template <>
inline constexpr auto value_names<SaveFailure> = named<SaveFailure>("stop", "continue");

struct CheckpointConfig {
  std::int64_t every_steps = 1000;  // 0: not by steps; the end of a run always writes one
  double every_minutes = 0;         // 0: not by time
  std::int64_t keep_last = 2;       // newest checkpoints kept; 0: all
  std::int64_t keep_every = 0;      // steps whose multiples are kept for good; 0: none
  bool async = true;                // write from a copy while training goes on
  SaveFailure on_error = SaveFailure::stop;

  bool operator==(const CheckpointConfig&) const = default;
};

}  // namespace trireme
