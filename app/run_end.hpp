#pragma once
// Ends a run: logs and records the resources used, the outcome, and errors.
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

// Trains to the end of the run. Logs what the run used and how it ended, writes this to timing.json
// and outcome.json, and returns the exit code. Throws SharedError, or ReportedError on the rank
// that failed alone. Collective.
int train_in(const LockedRun&, const Deck&, const Machine&, TrainLoop&, RunRecord&,
             const TrainArguments&);

// Ends a command that finds all steps done and evaluated, and returns the exit code. In its own run
// directory, writes the outcome that the last process may have left out. A null `directory` means
// that the finished run is in another one, so that there is nothing to do.
int end_finished(const RunDirectory* directory, const Inputs&, const std::filesystem::path& run,
                 const JobStart&);

}  // namespace trireme
