#pragma once
#include <filesystem>
#include <string>

namespace trireme {

// All bytes of a regular file. Throws Error naming it and the reason: of a folder, of a pipe, which
// might never end, and where reading fails.
std::string read_file(const std::filesystem::path&);

}  // namespace trireme
