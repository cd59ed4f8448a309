#pragma once
// Ends a run: writes its table of times, and reports and records errors.
#include <exception>
#include <filesystem>
#include <string>

#include "app/launch.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/run/loop.hpp"

namespace trireme {

// The run directory and the text of its lock. Every rank has a copy.
struct LockedRun {
  std::filesystem::path path;
  std::string lock_text;
};

// Logs the times of a run and adds them to timing.json. If writing fails, only logs a warning,
// because the log contains the same information.
void report_timing(const Communicator& world, const RunTiming&, const LockedRun&);

// Writes a local error to outcome.json. The rank with the error is about to abort the job, so that
// rank 0 can no longer do this.
void record_local_failure(const LockedRun&, const Communicator& world, const TrainLoop&,
                          const std::exception&, const JobStart&);

// Returns the error with a hint on how to continue the run. Returns it unchanged if the lock was
// lost, because the run then belongs to another process.
SharedError with_restart_hint(const SharedError&, const TrainLoop&, const RunRecord&);

}  // namespace trireme
