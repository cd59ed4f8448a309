#pragma once
// The [checkpoint] section of a deck: when checkpoints are written and which are kept.
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// What happens to the run if a checkpoint cannot be written.
enum class SaveFailure : std::uint8_t { stop, proceed };
template <>
inline constexpr auto value_names<SaveFailure> = named<SaveFailure>("stop", "continue");

struct CheckpointConfig {
  // 0 disables saving by steps. The end of a run always writes a checkpoint.
  std::int64_t every_steps = 1000;
  // 0 disables saving by time.
  double every_minutes = 0;
  // Number of newest checkpoints that are kept. 0 keeps all.
  std::int64_t keep_last = 2;
  // Steps that are multiples of this number are never removed. 0 disables this.
  std::int64_t keep_every = 0;
  // Write from a copy of the state while training continues.
  bool async = true;
  SaveFailure on_error = SaveFailure::stop;

  bool operator==(const CheckpointConfig&) const = default;
};

}  // namespace trireme
