#pragma once
// Generates manual pages from the options and descriptions of the command-line parser.
#include <CLI/CLI.hpp>

#include <filesystem>

namespace trireme {

// Writes trireme.1, and one file trireme-SUBCOMMAND.1 for each subcommand, to `folder`. Throws
// Error if a file cannot be written.
void write_manual(const CLI::App&, const std::filesystem::path& folder);

}  // namespace trireme
