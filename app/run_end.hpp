#pragma once
// Ends a run: logs and records the resource use, the outcome and the errors of the run.
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

// Trains until the run ends or must roll back to a checkpoint, and returns the exit code. Logs the
// resource use and the outcome of the run, and writes them to timing.json and outcome.json. Throws
// SharedError if the run fails on all ranks, and ReportedError if only this rank fails. Collective.
int train_in(const LockedRun&, const Deck&, const Machine&, TrainLoop&, RunRecord&,
             const TrainArguments&);

// Ends a `train` command whose run has already completed and evaluated all steps, and returns the
// exit code. Writes outcome.json to `directory`, because the last process may have ended before it
// wrote this file. If the finished run is in another directory, `directory` is null, and the
// function writes nothing.
int end_finished(const RunDirectory* directory, const Inputs&, const std::filesystem::path& run,
                 const JobStart&);

}  // namespace trireme
