#pragma once
#include <chrono>

namespace trireme {

// Waits until whoever reads the descriptor `pipe` has taken all that was written, `most` at the
// longest; not for what is no pipe. Did it come to that?
bool wait_until_read(int pipe, std::chrono::milliseconds most);

}  // namespace trireme
