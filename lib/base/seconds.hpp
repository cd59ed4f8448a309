#pragma once
// How long something took, by the clock that nobody sets.
#include <chrono>

namespace trireme {

inline double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace trireme
