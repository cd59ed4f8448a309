#pragma once
// The run directory at the start of `train`: find_start() locks it before its checkpoints are read,
// and begin_run() fills it.
#include <filesystem>
#include <optional>
#include <string>

#include "app/prepare.hpp"
#include "app/rolled_back.hpp"
#include "app/run_end.hpp"
#include "app/run_start.hpp"
#include "app/train_log.hpp"

namespace trireme {

// The run directory of a `train` command, and the checkpoint from which training resumes.
struct TrainStart {
  std::filesystem::path run;
  JobStart job;
  StartMode mode;
  std::optional<RunDirectory> directory;  // on rank 0, if it exists
  std::string from;                       // path of this checkpoint; empty for a new run
};

// Locks an existing run before its checkpoints are read. The only other change to the run is that
// an interrupted replacement of a checkpoint is undone. After a rollback, the run is locked
// already, and the rollback is recorded. Throws SharedError if the run cannot start. Collective.
TrainStart find_start(const Communicator& world, const SignalWatch&, const TrainArguments&,
                      const Deck&, const std::optional<RolledBack>& rolled_back);

// Fills the run directory, and on rank 0 opens the run's records in `record`. Locks the directory
// if it is new. Call begin_run() when nothing can refuse the run any more. `deck` is the path of
// the deck. Throws StoppedEarly if a signal arrives while the process waits for the lock.
// Collective.
LockedRun begin_run(const Communicator& world, TrainStart&, const SignalWatch&,
                    const std::filesystem::path& deck, const Inputs&, const Machine&, Origin,
                    Differences, RunRecord& record);

}  // namespace trireme
