#pragma once
// What a run leaves behind: its table of times, and how an error is said and recorded.
#include <exception>
#include <filesystem>
#include <string>

#include "app/launch.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/run_directory.hpp"
#include "lib/run/loop.hpp"

namespace trireme {

// The run directory and what its lock says, on every rank.
struct LockedRun {
  std::filesystem::path path;
  std::string lock_text;
};

// A failing write is no reason to end the run with an error: all that is in it was printed.
void report_timing(const Communicator& world, const RunTiming&, const LockedRun&);

// An error on one rank, which is about to abort the job: rank 0 cannot say it any more.
void record_local_failure(const LockedRun&, const Communicator& world, const TrainLoop&,
                          const std::exception&, const JobStart&);

// The error with the way to go on, as it is said once; none behind a lock that was lost: the run is
// another process's.
SharedError with_restart_hint(const SharedError&, const TrainLoop&, const RunRecord&);

}  // namespace trireme
