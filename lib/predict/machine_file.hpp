#pragma once
// Machine files: TOML, read like a deck. docs/scale.md has what each key means.
#include <filesystem>
#include <string>
#include <string_view>

#include "lib/predict/machine.hpp"

namespace trireme {

// Throws Error, a line "file:line:column: ..." for each problem of what is no machine file: unknown
// sections and keys, wrong types, values out of range, lists that do not fit each other, keys that
// are missing.
MachineModel parse_machine(std::string_view text, const std::string& source_name);
MachineModel load_machine(const std::filesystem::path&);

// The text of a machine file, of what is not as it is by default: numbers that are not whole, or
// from 1e9 on, have four digits.
std::string machine_text(const MachineModel&);

// A table of all sections and keys, for docs/scale.md.
std::string machine_reference();

}  // namespace trireme
