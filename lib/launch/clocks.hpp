#pragma once
// Offsets between the steady clocks of ranks. Ranks on one machine have the same clock. The clock
// of each machine starts when the machine boots.
#include <cstdint>
#include <span>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// Times at which one rank entered and left a barrier. No rank leaves a barrier before the last rank
// has entered it.
struct BarrierSeen {
  std::int64_t entered, left;  // nanoseconds by the rank's clock
};

// Returns the offset to add to times of `mine` to get times of `theirs`. Both lists describe the
// same barriers. Each barrier limits the offset to the range from theirs.entered - mine.left to
// theirs.left - mine.entered. Returns 0 if 0 satisfies all limits, otherwise the middle of the
// tightest limits.
std::int64_t clock_offset(std::span<const BarrierSeen> mine, std::span<const BarrierSeen> theirs);

// Returns the offset to add to this rank's Trace::nanoseconds() to get the time of rank 0.
// Collective.
std::int64_t offset_to_root(const Communicator&);

}  // namespace trireme::launch
