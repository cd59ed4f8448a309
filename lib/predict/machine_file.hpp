#pragma once
// Reads and writes machine files, which are TOML files like decks. docs/scale.md explains their
// keys.
#include <filesystem>
#include <string>
#include <string_view>

#include "lib/predict/machine.hpp"

namespace trireme {

// Parses a machine file. Throws Error with one line "file:line:column: ..." for each problem:
// unknown sections or keys, wrong types, values out of range, lists of unequal length, and missing
// keys.
MachineModel parse_machine(std::string_view text, const std::string& source_name);
// Reads a machine file. Throws Error if there is no such file, and under the conditions of
// parse_machine().
MachineModel load_machine(const std::filesystem::path&);

// Returns the text of a machine file. Keys with default values are omitted. Numbers that are not
// whole, or that are at least 1e9, are written with four significant digits.
std::string machine_text(const MachineModel&);

// Returns a table of all sections and keys for docs/scale.md.
std::string machine_reference();

}  // namespace trireme
