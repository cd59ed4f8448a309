#pragma once
// Waiting for a GPU with a time limit. A driver call that waits cannot be interrupted.
#include <sched.h>

#include <chrono>

#include "lib/base/deadline.hpp"

namespace trireme::cuda {

// Blocks until work on the GPU is done. `is_done` asks the driver. `block` returns when the work is
// done. If the work takes longer than `seconds`, logs an error and ends the process with exit code
// 1. If `seconds` is 0, there is no limit.
template <class Done, class Block>
void wait_for_device(double seconds, const Done& is_done, const Block& block) {
  using Clock = std::chrono::steady_clock;
  // Most waits are too short for the thread of a Deadline to pay.
  for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::milliseconds(1);) {
    if (is_done()) return;
    sched_yield();
  }
  const Deadline limit("work on the GPU", seconds,
                       "the GPU or its driver is stuck, which the kernel log of the node may "
                       "explain (dmesg). If the GPU is only slow, raise run.hang_timeout");
  block();
}

}  // namespace trireme::cuda
