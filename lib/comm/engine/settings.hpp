#pragma once
// Settings that all communicators of a job share.
#include <cstdint>

namespace trireme::engine {

// Settings of a job's communicators.
struct Settings {
  std::int64_t chunk = 1 << 20;  // maximum number of elements per message; equal on all ranks
  double hang_timeout = 0;       // seconds after which a wait throws Error; 0 means never
  bool check_labels = false;  // compares the label of each collective over ranks before it starts
  std::uint64_t random_delays = 0;  // seed of random message delays; 0 means none
};

}  // namespace trireme::engine
