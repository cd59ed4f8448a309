#pragma once
// Reads and writes machine files, which are TOML like decks. docs/scale.md explains the keys.
#include <filesystem>
#include <string>
#include <string_view>

#include "lib/predict/machine.hpp"

namespace trireme {

// Returns the contents of a machine file. Throws Error with one line "file:line:column: ..." for
// each problem: unknown sections or keys, wrong types, values out of range, lists of unequal
// length, and missing keys.
MachineModel parse_machine(std::string_view text, const std::string& source_name);
// Reads a machine file. Throws Error if there is no such file, and as parse_machine() does.
MachineModel load_machine(const std::filesystem::path&);

// Returns the text of a machine file, without keys whose value is the default. Numbers that are not
// whole, or are 1e9 or more, are written with four digits.
std::string machine_text(const MachineModel&);

// Returns a table of all sections and keys for docs/scale.md.
std::string machine_reference();

}  // namespace trireme
