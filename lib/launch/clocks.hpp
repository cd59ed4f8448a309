#pragma once
// Offsets between the steady clocks of ranks: those of one machine agree, another machine's counts
// from its own boot.
#include <cstdint>
#include <span>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// One barrier as a rank saw it: no rank left before the last one had entered.
struct BarrierSeen {
  std::int64_t entered, left;  // ns of the rank's clock
};

// To be added to `mine` to get `theirs`, from the same barriers. Each one bounds the offset by
// theirs.entered - mine.left and theirs.left - mine.entered; 0 if that is within all bounds, else
// the middle of the tightest ones. Pure.
std::int64_t clock_offset(std::span<const BarrierSeen> mine, std::span<const BarrierSeen> theirs);

// To be added to Trace::nanoseconds() of this rank to get rank 0's. Collective.
std::int64_t offset_to_root(const Communicator&);

}  // namespace trireme::launch
