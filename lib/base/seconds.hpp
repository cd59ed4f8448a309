#pragma once
// Measurement of elapsed time.
#include <chrono>

namespace trireme {

// Returns the seconds since `t` by the monotonic clock.
inline double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace trireme
