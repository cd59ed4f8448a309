#pragma once
#include <filesystem>

namespace trireme {

// From now on errors of this process are added to `file`, too, which another rank writes; it is
// opened for each.
void log_errors_to(std::filesystem::path file);

}  // namespace trireme
