#pragma once
// Generates manual pages from the description of the command line.
#include <CLI/CLI.hpp>

#include <filesystem>

namespace trireme {

// Writes trireme.1 and one trireme-SUBCOMMAND.1 per subcommand into `folder`. Throws Error if that
// fails.
void write_manual(const CLI::App&, const std::filesystem::path& folder);

}  // namespace trireme
