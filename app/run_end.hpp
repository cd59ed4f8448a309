#pragma once
// Ends a run: logs and records its resource use, its outcome and its errors.
#include <filesystem>
#include <string>

#include "app/machine.hpp"
#include "app/prepare.hpp"
#include "app/run_start.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/run/loop.hpp"

namespace trireme {

// The run directory and the text of its lock. Every rank has a copy.
struct LockedRun {
  std::filesystem::path path;
  std::string lock_text;
};

inline constexpr int exit_stopped_early = 75;  // EX_TEMPFAIL: requeue me

// Trains until the run ends and returns the exit code. Logs the run's resource use and outcome, and
// writes them to timing.json and outcome.json. Throws SharedError, or throws ReportedError if only
// this rank failed. Collective.
int train_in(const LockedRun&, const Deck&, const Machine&, TrainLoop&, RunRecord&,
             const TrainArguments&);

// Ends a command whose run has already completed and evaluated all steps, and returns the exit
// code. If the run is in its own directory, writes outcome.json, which the last process may not
// have written. A null `directory` means that the finished run is in another directory. Then there
// is nothing to write.
int end_finished(const RunDirectory* directory, const Inputs&, const std::filesystem::path& run,
                 const JobStart&);

}  // namespace trireme
