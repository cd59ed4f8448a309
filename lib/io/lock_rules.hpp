#pragma once
// Who may take the lock of a run directory: decisions alone, without files or clocks.
// lib/io/run_lock acts on them; the protocol stands there.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/io/lock_holder.hpp"

namespace trireme {

// A grace, heartbeat and slack, is shorter than the silence.
struct LockTimes {
  std::chrono::milliseconds heartbeat{10'000};  // between two signs of life
  std::chrono::milliseconds slack{2'000};       // by which one may be late
  std::chrono::milliseconds silence{60'000};    // after which a holder counts as dead
  std::chrono::milliseconds look{200};          // between two looks of who waits
};

// What one look at the file showed.
struct LockObservation {
  bool there = false;
  std::string text;
  std::int64_t time = 0;  // of its last sign of life, to be compared with itself alone
  // Of a holder whose process number means something here. `ended_and_flocked`: this process has a
  // flock on the file as well, so no other one of this host replaces it meanwhile.
  enum class Liveness : std::uint8_t {
    unknown,
    alive,
    ended,
    ended_and_flocked
  } liveness = Liveness::unknown;
};

enum class LockStep : std::uint8_t {
  create,   // put a lock of one's own where there is none, or fail to
  replace,  // put it in the place of what is there
  wait,     // look again a little later
  have,     // it is this process's
  refuse    // another process lives
};

using LockTime = std::chrono::nanoseconds;  // by any clock of the process that runs on

// One process's way to the lock: what it remembers between its looks.
struct LockAttempt {
  LockHolder me;
  LockTimes times;
  std::optional<LockObservation> before{};
  LockTime since{};  // when what is there was first seen
  LockTime grace{};  // for which it must stay one's own before it is used

  // What to do after this look.
  LockStep next(const LockObservation&, LockTime now);
  // What is put in a place needs a grace: somebody may believe that it is still his, or do the
  // same.
  void needs_grace() { grace = times.heartbeat + times.slack; }

 private:
  LockStep replace(LockObservation::Liveness);
};

}  // namespace trireme
