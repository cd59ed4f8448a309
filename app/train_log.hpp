#pragma once
// Writes the beginning of a run's log.
#include <filesystem>

#include "app/prepare.hpp"

namespace trireme {

// Logs the program, the job, the machine and the model. If the run restarts from a checkpoint, also
// logs the checkpoint and the deck keys that have changed.
void log_start(const Inputs&, const Machine&, const std::filesystem::path& deck,
               const std::filesystem::path& run);

// Logs the host and the process id of each rank. Messages of launchers and debuggers identify ranks
// by host and process id.
void log_processes(const Communicator& world);

}  // namespace trireme
