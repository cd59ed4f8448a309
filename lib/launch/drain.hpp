#pragma once
#include <chrono>

namespace trireme {

// Blocks until the reader of a pipe has consumed all data written to it, or until the time `most`
// has passed. Returns false if the time has passed. If the descriptor is not a pipe, returns true
// immediately.
bool wait_until_read(int pipe, std::chrono::milliseconds most);

}  // namespace trireme
