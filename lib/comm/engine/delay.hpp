#pragma once
// Delays messages by random times, so that in tests they arrive in any order.
#include <chrono>
#include <cstdint>
#include <optional>

namespace trireme::engine {

// The source of these times.
struct DelaySource {
  std::uint64_t seed = 0;  // 0: no delays
  std::uint64_t draws = 0;
};

class Delay {
 public:
  // `source` outlives it.
  Delay(DelaySource& source, int rank) : source_(source), rank_(rank) {}
  // Has the delay passed? True starts the next one.
  bool over();

 private:
  DelaySource& source_;
  int rank_;
  std::optional<std::chrono::steady_clock::time_point> until_;
};

}  // namespace trireme::engine
