#pragma once
// Are the programs of all stages sound, and what does a stage hold meanwhile? Pure; whether they
// finish depends on who executes them: lib/pipe/deadlock.
#include <span>
#include <string>
#include <vector>

#include "lib/pipe/schedule.hpp"

namespace trireme {

// What is wrong with the programs (one a stage) whatever executes them, empty: nothing. Sound are
// programs that run every microbatch forward once, and backward once on all stages from some stage
// on; that move each tensor before it is read and after it is made; and whose messages match in
// order, with none left over.
std::vector<std::string> program_faults(std::span<const Program>, int microbatches);

// An input is held, with what was saved for it and the gradient that replaces it, from `begins` to
// `ends` of its microbatch: from its arrival (first stage: its forward) until the gradient has been
// sent (after its backward or forward, where nothing comes later).
struct InputLife {
  Do begins, ends;
};
InputLife input_life(const Program&);

// The most that a stage holds at once, in program order.
struct PeakHeld {
  int inputs = 0;
  int arriving = 0;  // tensors received and not yet read, the larger of both directions
  int leaving = 0;   // tensors made and not yet sent, the larger of both directions
  bool operator==(const PeakHeld&) const = default;
};
PeakHeld peak_in_flight(const Program&);

}  // namespace trireme
