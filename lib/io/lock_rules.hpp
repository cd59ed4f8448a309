#pragma once
// Who may take the lock of a run directory: decisions alone, without files or clocks.
// lib/io/run_lock acts on them; the protocol stands there.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

// A process that has a lock, as its file says it:
// "job 120_3 restart 2 process 4711 on n3 of 8f.. 4026531836 id 9c..".
struct LockHolder {
  std::string job = "-";  // "-": of none
  int restart = 0;        // starts of the job before this one
  int process = 0;
  std::string host = "-";
  std::string kernel = "-";  // its boot and the process numbers' namespace; "-": not known
  std::string id = "-";      // drawn at its start; no other has it
  bool operator==(const LockHolder&) const = default;
};
std::string text_of(const LockHolder&);
// "job 120_3 restart 2 process 4711 on n3", for messages.
std::string short_text_of(const LockHolder&);
// None for what no version wrote. Earlier versions wrote what short_text_of() says.
std::optional<LockHolder> parse_lock_holder(const std::string& text);
// Do the numbers of processes mean the same to both?
bool same_kernel(const LockHolder&, const LockHolder&);

// A rest, beat and slack, is shorter than the silence.
struct LockPauses {
  std::chrono::milliseconds beat{10'000};     // between two signs of life
  std::chrono::milliseconds slack{2'000};     // by which one may be late
  std::chrono::milliseconds silence{60'000};  // after which a holder counts as dead
  std::chrono::milliseconds look{200};        // between two looks of who waits
};

// What one look at the file showed.
struct LockSight {
  bool there = false;
  std::string text;
  std::int64_t time = 0;  // of its last sign of life, to be compared with itself alone
  // Of a holder on this kernel: what it knows. `ended_alone`: this process has the kernel's lock on
  // the file as well, so no other one of this kernel replaces it meanwhile.
  enum class Life : std::uint8_t { unknown, lives, ended, ended_alone } life = Life::unknown;
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
struct LockTaking {
  LockHolder me;
  LockPauses pauses;
  std::optional<LockSight> before{};
  LockTime since{};  // when what is there was first seen
  LockTime rest{};   // for which it must stay one's own before it is used

  // What to do after this look.
  LockStep next(const LockSight&, LockTime now);
  // What is put in a place needs a rest: somebody may believe that it is still his, or do the same.
  void rests() { rest = pauses.beat + pauses.slack; }

 private:
  LockStep replace(LockSight::Life);
};

}  // namespace trireme
