#pragma once
// Waiting for a GPU with a time limit. A driver call that waits cannot be interrupted, so the host
// polls instead.
#include <sched.h>

#include <chrono>
#include <thread>

namespace trireme::cuda {

// Polls until `is_done` returns true. Returns false if this takes longer than `seconds`. If
// `seconds` is 0, there is no limit.
template <class Done>
bool wait_for_device(double seconds, const Done& is_done) {
  using Clock = std::chrono::steady_clock;
  using namespace std::chrono_literals;
  const auto begin = Clock::now();
  while (!is_done()) {
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (seconds > 0 && waited.count() > seconds) return false;
    // Short waits are frequent, and sleeping takes longer than they do.
    if (waited < 1ms)
      sched_yield();
    else
      std::this_thread::sleep_for(50us);
  }
  return true;
}

}  // namespace trireme::cuda
