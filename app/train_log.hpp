#pragma once
// Writes the beginning of a run's log.
#include <cstdint>
#include <filesystem>

#include "app/prepare.hpp"

namespace trireme {

// Whether the process has already logged how the deck differs from that of the checkpoint.
enum class Differences : std::uint8_t { new_, known };

// Logs the program, the job, the machine and the model. If the run restarts from a checkpoint, also
// logs the checkpoint and, unless they are known, the deck keys that have changed.
void log_start(const Inputs&, const Machine&, const std::filesystem::path& deck,
               const std::filesystem::path& run, Differences);

// If the run has rolled back to the checkpoint before, logs the sample from which it continues.
void log_earlier_rollback(const Inputs&);

// Logs the host and the process id of each rank. Messages of launchers and debuggers identify ranks
// by host and process id.
void log_processes(const Communicator& world);

}  // namespace trireme
