#pragma once
// Random delays of messages. Tests use them to let messages arrive in any order.
#include <chrono>
#include <cstdint>
#include <optional>

namespace trireme::engine {

// A random sequence of delays.
struct DelaySource {
  std::uint64_t seed = 0;   // 0 means no delays
  std::uint64_t draws = 0;  // number of delays so far
};

// Sequence of delays, one at a time, for one direction of an operation.
class Delay {
 public:
  // `source` must outlive this object.
  Delay(DelaySource& source, int rank) : source_(source), rank_(rank) {}
  // Returns true if the current delay has passed. The next call then starts another delay.
  bool over();

 private:
  DelaySource& source_;
  int rank_;
  std::optional<std::chrono::steady_clock::time_point> until_;
};

}  // namespace trireme::engine
