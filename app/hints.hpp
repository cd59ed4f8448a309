#pragma once
// What to say of options and commands that do not exist.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace trireme {

// A line for each argument --NAME or --NAME=VALUE whose name is a deck's key, or another trainer's
// name of one.
std::string hints_for(int argc, const char* const* argv);

// A line that names the command that `word` probably means; empty: none is near.
std::string hint_of_command(const CLI::App&, std::string_view word);

}  // namespace trireme
