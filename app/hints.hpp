#pragma once
// Writes hints for options and commands that do not exist.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Returns a hint for each argument --NAME or --NAME=VALUE in which NAME is a deck key, or another
// trainer's name for a deck key.
std::string hints_for(int argc, const char* const* argv);

// Returns the words of a partly parsed command line that look like options but are not options of
// the command.
std::vector<std::string> unknown_options(const CLI::App&);
// Returns a hint for each of the `unknown` words that resembles an option of the command.
std::string hints_of_options(const CLI::App&, const std::vector<std::string>& unknown);

// Returns a message about the first argument that begins with a typographic dash and would be an
// option or a key if it began with "-". Returns an empty string if there is no such argument.
std::string unicode_dash_in(const CLI::App&, int argc, const char* const* argv);

// Returns a hint that names the command most similar to `word`. Returns an empty string if no
// command is similar.
std::string hint_of_command(const CLI::App&, std::string_view word);

}  // namespace trireme
