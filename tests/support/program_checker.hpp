#pragma once
// Are the programs of all stages sound, and how much does a stage hold? Whether they finish depends
// on the execution: tests/support/deadlock.hpp.
#include <span>
#include <string>
#include <vector>

#include "tests/support/route.hpp"

namespace trireme {

// What is wrong with the programs (one a stage) under any execution; empty: nothing. Sound programs
// run every microbatch forward once in each chunk, and backward once (whole or in halves, the
// weights' second) on all virtual stages from some one on; they send each tensor after it is made
// and receive it before it is read; and all messages that go one way between two stages match in
// order, with none left over.
std::vector<std::string> program_faults(const Route&, std::span<const Program>, int microbatches);

// An input is held, with what was saved for it and the gradient that replaces it, from `begins` to
// `ends` of its microbatch: from its arrival (first stage: its forward) until the gradient has been
// sent (after its backward or forward, where nothing comes later). What weight gradients read of it
// later is not counted here.
struct InputLife {
  Do begins, ends;
};
InputLife input_life(const Program&, int chunk = 0);

// The largest numbers that a stage holds at once, of all its chunks, in program order.
struct PeakHeld {
  int inputs = 0;
  int arriving = 0;  // activations or gradients received and not yet read, whichever are more
  int leaving = 0;   // activations or gradients made and not yet sent, whichever are more
  int weights = 0;   // gradients of inputs made whose weight gradients are still to come
  bool operator==(const PeakHeld&) const = default;
};
PeakHeld peak_in_flight(const Program&);

}  // namespace trireme
