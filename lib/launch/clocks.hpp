#pragma once
// How far the steady clocks of ranks are apart: those of one machine are the same, those of others
// start when they were switched on.
#include <cstdint>
#include <span>

#include "lib/comm/communicator.hpp"

namespace trireme::launch {

// One barrier as a rank saw it: no rank left before the last one had entered.
struct BarrierSeen {
  std::int64_t entered, left;  // ns of the rank's clock
};

// To be added to `mine` to get `theirs`, from the same barriers. Each says that it lies between
// theirs.entered - mine.left and theirs.left - mine.entered; 0 when all allow it, else the middle
// of what all allow. Pure.
std::int64_t clock_offset(std::span<const BarrierSeen> mine, std::span<const BarrierSeen> theirs);

// To be added to Trace::nanoseconds() of this rank to get rank 0's. Collective.
std::int64_t offset_to_root(const Communicator&);

}  // namespace trireme::launch
