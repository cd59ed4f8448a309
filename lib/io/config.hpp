#pragma once
// The deck section [checkpoint]: when checkpoints are written and which ones are kept.
#include <cstdint>

#include "lib/base/value_names.hpp"

namespace trireme {

// Whether the run stops or continues if a checkpoint cannot be written.
enum class SaveFailure : std::uint8_t { stop, proceed };
template <>
inline constexpr auto value_names<SaveFailure> = named<SaveFailure>("stop", "continue");

struct CheckpointConfig {
  // Steps between checkpoints. 0 disables saving by steps. At its end, a run always writes a
  // checkpoint.
  std::int64_t every_steps = 1000;
  // Minutes between checkpoints. 0 disables saving by time.
  double every_minutes = 0;
  // Number of newest checkpoints to keep. 0 keeps all checkpoints. Checkpoints at the end of a
  // decay (schedule.decay_end_steps) are kept in addition.
  std::int64_t keep_last = 2;
  // Number of checkpoints with the best evaluations to keep. They may be among the newest ones.
  std::int64_t keep_best = 0;
  // Checkpoints whose step is a multiple of this number are never removed. 0 disables this rule.
  std::int64_t keep_every = 0;
  // Whether checkpoints are written from a copy of the state while training continues.
  bool async = true;
  SaveFailure on_error = SaveFailure::stop;
  // Steps between memory copies, which are copies of the state in the memory of two nodes. 0 makes
  // none.
  std::int64_t memory_every = 0;

  bool operator==(const CheckpointConfig&) const = default;
};

}  // namespace trireme
