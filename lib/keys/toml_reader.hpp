#pragma once
// Parses TOML text into sections of keys with their locations. No other file uses the TOML library.
#include <string>
#include <string_view>
#include <vector>

#include "lib/keys/value.hpp"

namespace trireme {

// A key and its value as read from the file.
struct RawEntry {
  std::string key;
  SourceLocation place;
  RawValue value;
};

// A section [name], one entry [[name]], or the keys before any section (whose section name is
// empty).
struct RawSection {
  std::string name;
  SourceLocation place;
  bool repeated = false;  // one entry [[name]]
  std::vector<RawEntry> entries;
};

// Returns the sections in the order of the file. Throws Error "source:line:column: ..." if the text
// is not TOML, for example because of a duplicate key.
std::vector<RawSection> read_toml(std::string_view text, const std::string& source);

}  // namespace trireme
