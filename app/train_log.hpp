#pragma once
// Writes the beginning of a run's log.
#include <cstdint>
#include <filesystem>

#include "app/prepare.hpp"

namespace trireme {

// How a leg of the run begins. After a rollback, the deck is the same as before it.
enum class LegBegin : std::uint8_t { start, rollback };

// Logs the program, the job, the machine and the model. If the run restarts from a checkpoint, also
// logs the checkpoint and, at a start, the deck keys that have changed.
void log_start(const Inputs&, const Machine&, const std::filesystem::path& deck,
               const std::filesystem::path& run, LegBegin);

// If the run has rolled back to the checkpoint before, logs the sample from which it continues.
void log_earlier_rollback(const Inputs&);

// Logs the host and the process id of each rank. Messages of launchers and debuggers identify ranks
// by host and process id.
void log_processes(const Communicator& world);

}  // namespace trireme
