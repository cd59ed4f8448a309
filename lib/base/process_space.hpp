#pragma once
// Identifies the PID namespace of a process, within which process ids are unambiguous.
#include <string>

namespace trireme {

// Returns "<boot id>.<PID namespace>" of this process, or "-" if the system does not provide them.
std::string this_process_space();

// Returns true if a process with this id exists in this process's PID namespace, including
// processes of other users.
bool is_running(int process);

}  // namespace trireme
