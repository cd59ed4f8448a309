#pragma once
// Holds messages back for random times, so that tests see them arrive in any order.
#include <chrono>
#include <cstdint>
#include <optional>

namespace trireme::engine {

// Where the times come from.
struct DelaySource {
  std::uint64_t seed = 0;  // 0: nothing is held back
  std::uint64_t draws = 0;
};

class Delay {
 public:
  // `source` outlives it.
  Delay(DelaySource& source, int rank) : source_(source), rank_(rank) {}
  // May it go on? A yes begins the next delay.
  bool over();

 private:
  DelaySource& source_;
  int rank_;
  std::optional<std::chrono::steady_clock::time_point> until_;
};

}  // namespace trireme::engine
