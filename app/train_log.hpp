#pragma once
// Writes the beginning of a run's log.
#include <filesystem>

#include "app/prepare.hpp"

namespace trireme {

// Logs the program, job, machine and model. For a restart, also logs the checkpoint and the deck
// keys that have changed.
void log_start(const Inputs&, const Machine&, const std::filesystem::path& deck,
               const std::filesystem::path& run);

// Logs the host and process id of each rank, which launchers and debuggers use in their messages.
void log_processes(const Communicator& world);

}  // namespace trireme
