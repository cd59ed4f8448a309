#pragma once
// Settings of a job's communication.
#include <cstdint>

namespace trireme::engine {

struct Settings {
  std::int64_t chunk = 1 << 20;     // most elements of one message; the same on all ranks
  double hang_timeout = 0;          // seconds a wait may last before it throws Error; 0: for ever
  bool check_labels = false;        // every collective first compares its label over the ranks
  std::uint64_t random_delays = 0;  // not 0: seed of random delays of messages
};

}  // namespace trireme::engine
