#pragma once
// A run's steps again, on one rank, as its deck has them: the same samples, rates, freeze rules and
// random numbers.
#include <cstdint>
#include <string>

#include "app/prepare.hpp"

namespace trireme {

// Seconds may pass for each step: whoever asks for more than this says so.
inline constexpr std::int64_t usual_replay_steps = 100;

class Replayer {
 public:
  // From a checkpoint's directory; empty: from the beginning. `deck` is what the steps were made
  // with, whatever its grid. `rounding` not 0: all results are moved by what rounding may move
  // them, at random from this seed; in host memory, whatever the deck's backend. Error when the
  // deck's files are not there or other than they were, or the memory does not suffice.
  Replayer(const Deck& deck, const std::string& checkpoint, std::uint64_t rounding = 0);

  std::int64_t step() const { return in_.meta.step; }  // finished ones
  // Makes the next one.
  StepResult next();
  Trainer& trainer() { return *machine_.trainer; }
  std::string machine() const { return machine_kind(machine_.choice); }

 private:
  Inputs in_;
  Machine machine_;
};

}  // namespace trireme
