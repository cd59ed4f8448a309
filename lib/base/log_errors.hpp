#pragma once
#include <filesystem>

namespace trireme {

// Appends all further errors of this process to `file` as well. Another rank owns the file and must
// have created it. The file is therefore opened and closed for each error.
void log_errors_to(std::filesystem::path file);

}  // namespace trireme
