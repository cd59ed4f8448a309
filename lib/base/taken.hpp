#pragma once
#include <chrono>

namespace trireme {

// Waits until whoever reads the pipe `descriptor` has taken all that was written, `most` at the
// longest; not for what is no pipe. Did it come to that?
bool taken(int descriptor, std::chrono::milliseconds most);

}  // namespace trireme
