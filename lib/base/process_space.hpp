#pragma once
// Where process numbers mean the same.
#include <string>

namespace trireme {

// "<boot>.<pid namespace>" of this process; "-" where this system does not say.
std::string this_process_space();

// In this process's space. One of another user counts, too.
bool is_running(int process);

}  // namespace trireme
