#pragma once
// Replays steps of a run on one rank, with the same samples, learning rates, freeze rules and
// random numbers as in the run.
#include <cstdint>
#include <filesystem>
#include <string>

#include "app/prepare.hpp"
#include "lib/run/skip_rules.hpp"

namespace trireme {

// Default of the maximum number of steps that a replay computes. A step may take seconds.
inline constexpr std::int64_t usual_replay_steps = 100;

// A run that is being replayed.
class Replayer {
 public:
  // Starts at a checkpoint, or at the beginning of the run if `checkpoint` is empty. `run` is the
  // directory of the run, and `deck` is the deck with which it computed the steps. The grid in the
  // deck is ignored. If `rounding` is not 0, every result is changed at random, by as much as
  // rounding can change it. `rounding` is then the seed of the random numbers, and the backend runs
  // in host memory. Throws Error if a file of the deck is missing or has changed, or if there is
  // not enough memory.
  Replayer(const Deck& deck, const std::filesystem::path& run, const std::string& checkpoint,
           std::uint64_t rounding = 0);

  // Returns the number of completed steps.
  std::int64_t step() const { return in_.meta.step; }
  // Computes the next step.
  StepResult next();
  Trainer& trainer() { return *machine_.trainer; }
  std::string machine() const { return machine_kind(machine_.choice); }

 private:
  Inputs in_;
  std::vector<RollbackRow> rollbacks_;  // of the run
  SkipRules skips_;
  Machine machine_;
};

}  // namespace trireme
