#pragma once
// What a run's log begins with.
#include <filesystem>

#include "app/prepare.hpp"

namespace trireme {

// Program, job, machine and model; of a restart, from where and what its deck changes.
void log_start(const Inputs&, const Machine&, const std::filesystem::path& deck,
               const std::filesystem::path& run);

// Host and process id of each rank: a launcher's messages and debuggers name these.
void log_processes(const Communicator& world);

}  // namespace trireme
