#pragma once
// Manual pages of the command line, made from its own description.
#include <CLI/CLI.hpp>

#include <filesystem>

namespace trireme {

// Writes trireme.1 and a trireme-SUBCOMMAND.1 for each subcommand into `folder`. Error when it
// cannot.
void write_manual(const CLI::App&, const std::filesystem::path& folder);

}  // namespace trireme
