#pragma once
// Decides who may take a run directory's lock. These functions use no files and no clocks.
// lib/io/run_lock carries out the decisions and describes the protocol.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/io/lock_holder.hpp"

namespace trireme {

// Time limits of the lock protocol. `heartbeat` + `slack` must be shorter than `silence`.
struct LockTimes {
  // Interval between two signs of life.
  std::chrono::milliseconds heartbeat{10'000};
  // Tolerated delay of a sign of life.
  std::chrono::milliseconds slack{2'000};
  // A holder that gives no sign of life for this long counts as dead.
  std::chrono::milliseconds silence{60'000};
  // Interval at which a waiting process looks at the lock.
  std::chrono::milliseconds look{200};
};

// The state of the lock file at one look.
struct LockObservation {
  bool there = false;
  std::string text;
  // Time of its last sign of life. It is only compared with earlier values of itself.
  std::int64_t time = 0;
  // Whether the holder's process runs, if its process id has a meaning on this host.
  // `ended_and_flocked` means that this process also has a flock on the file, so that no other
  // process of this host can replace it meanwhile.
  enum class Liveness : std::uint8_t {
    unknown,
    alive,
    ended,
    ended_and_flocked
  } liveness = Liveness::unknown;
};

// The next step towards the lock.
enum class LockStep : std::uint8_t {
  // Create a lock file where there is none. This may fail.
  create,
  // Replace the existing lock file.
  replace,
  // Look again a little later.
  wait,
  // This process holds the lock.
  have,
  // Another live process holds the lock.
  refuse
};

// Measured by any monotonic clock of the process.
using LockTime = std::chrono::nanoseconds;

// One process's attempt to take the lock, with what it remembers between looks.
struct LockAttempt {
  LockHolder me;
  LockTimes times;
  std::optional<LockObservation> before{};
  // When the current lock file was first seen.
  LockTime since{};
  // How long this process's lock file must stay in place before the lock counts as taken.
  LockTime grace{};

  // Returns the next step after a look.
  LockStep next(const LockObservation&, LockTime now);
  // Requires a grace period after replacing a lock file, because the former holder may still
  // believe that it holds the lock, or another process may replace the file too.
  void needs_grace() { grace = times.heartbeat + times.slack; }

 private:
  LockStep replace(LockObservation::Liveness);
};

}  // namespace trireme
