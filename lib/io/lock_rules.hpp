#pragma once
// Decides which process may take a run directory's lock. These functions use no files and no
// clocks. lib/io/run_lock carries out the decisions and describes the protocol.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/io/lock_holder.hpp"

namespace trireme {

// Time limits of the lock protocol. `heartbeat` + `slack` must be shorter than `silence`.
struct LockTimes {
  // Interval between two heartbeats (updates of the lock file's time).
  std::chrono::milliseconds heartbeat{10'000};
  // Tolerated delay of a heartbeat.
  std::chrono::milliseconds slack{2'000};
  // Time without a heartbeat after which the holder counts as dead.
  std::chrono::milliseconds silence{60'000};
  // Interval at which a waiting process reads the lock.
  std::chrono::milliseconds look{200};
};

// State of the lock file at one observation.
struct LockObservation {
  bool there = false;
  std::string text;
  // Time of the last heartbeat, in file system time. It is compared only with earlier values of the
  // same file.
  std::int64_t time = 0;
  // Whether the holder's process is running, if its process id is meaningful on this host.
  // `ended_and_flocked` means that this process also has a flock on the file, so that no other
  // process on this host can replace the file in the meantime.
  enum class Liveness : std::uint8_t {
    unknown,
    alive,
    ended,
    ended_and_flocked
  } liveness = Liveness::unknown;
};

// The next step of a process that wants the lock.
enum class LockStep : std::uint8_t {
  // Create a lock file, because there is none. The creation may fail.
  create,
  // Replace the existing lock file.
  replace,
  // Observe the lock again later.
  wait,
  // This process holds the lock.
  have,
  // Another live process holds the lock.
  refuse
};

// Time of any monotonic clock of the process.
using LockTime = std::chrono::nanoseconds;

// One process's attempt to take the lock, with the state that it keeps between observations.
struct LockAttempt {
  LockHolder me;
  LockTimes times;
  std::optional<LockObservation> before{};
  // Time at which the current lock file was first observed.
  LockTime since{};
  // Time for which this process's lock file must exist unchanged before the lock counts as taken.
  LockTime grace{};

  // Returns the next step after an observation.
  LockStep next(const LockObservation&, LockTime now);
  // Requires a grace period after a lock file was replaced. The former holder may still believe
  // that it holds the lock, or another process may also replace the file.
  void needs_grace() { grace = times.heartbeat + times.slack; }

 private:
  LockStep replace(LockObservation::Liveness);
};

}  // namespace trireme
