#pragma once
#include <chrono>

namespace trireme {

// Blocks until the reader of a pipe has consumed everything written to it, or until `most` has
// passed. Returns false if `most` has passed. Returns true at once if the descriptor is not a pipe.
bool wait_until_read(int pipe, std::chrono::milliseconds most);

}  // namespace trireme
