#pragma once
// What to say of options and commands that do not exist.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// A line for each argument --NAME or --NAME=VALUE whose name is a deck's key, or another trainer's
// name of one.
std::string hints_for(int argc, const char* const* argv);

// Of a command line that was parsed up to a mistake: what looks like an option of it and is none.
std::vector<std::string> unknown_options(const CLI::App&);
// A line for each of these that is near to an option of the command.
std::string hints_of_options(const CLI::App&, const std::vector<std::string>& unknown);

// What to say of the first argument that would name an option or a key, were its dashes those of
// ASCII; empty: there is none.
std::string unicode_dash_in(const CLI::App&, int argc, const char* const* argv);

// A line that names the command that `word` probably means; empty: none is near.
std::string hint_of_command(const CLI::App&, std::string_view word);

}  // namespace trireme
