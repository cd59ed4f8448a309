#pragma once
// Offsets between the steady clocks of ranks. Ranks on one machine have the same clock. Each
// machine's clock starts at its boot.
#include <cstdint>
#include <span>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// The times at which one rank entered and left a barrier. No rank leaves before the last one has
// entered.
struct BarrierSeen {
  std::int64_t entered, left;  // nanoseconds by the rank's clock
};

// Returns the offset to add to times of `mine` to get times of `theirs`. Both lists describe the
// same barriers. Each barrier limits the offset to the range from theirs.entered - mine.left to
// theirs.left - mine.entered. Returns 0 if that satisfies all limits, otherwise the middle of the
// tightest limits.
std::int64_t clock_offset(std::span<const BarrierSeen> mine, std::span<const BarrierSeen> theirs);

// Returns the offset to add to this rank's Trace::nanoseconds() to get rank 0's. Collective.
std::int64_t offset_to_root(const Communicator&);

}  // namespace trireme::launch
