#pragma once
// Replays steps of a run on one rank, with the same samples, learning rates, freeze rules and
// random numbers as in the run.
#include <cstdint>
#include <string>

#include "app/prepare.hpp"

namespace trireme {

// Maximum number of steps that a replay computes unless the user allows more. Each step may take
// seconds.
inline constexpr std::int64_t usual_replay_steps = 100;

// A run that is being replayed.
class Replayer {
 public:
  // Starts at a checkpoint, or at the beginning of the run if `checkpoint` is empty. `deck` is the
  // deck with which the steps were computed. Its grid does not matter. If `rounding` is not 0, it
  // is the seed for random changes of all results, whose size is that of possible rounding errors.
  // The backend then runs in host memory. Throws Error if the deck's files are missing or have
  // changed, or if there is not enough memory.
  Replayer(const Deck& deck, const std::string& checkpoint, std::uint64_t rounding = 0);

  // Returns the number of completed steps.
  std::int64_t step() const { return in_.meta.step; }
  // Computes the next step.
  StepResult next();
  Trainer& trainer() { return *machine_.trainer; }
  std::string machine() const { return machine_kind(machine_.choice); }

 private:
  Inputs in_;
  Machine machine_;
};

}  // namespace trireme
