#pragma once
// TOML text -> sections of keys with their locations. The only user of the TOML library.
#include <string>
#include <string_view>
#include <vector>

#include "lib/keys/value.hpp"

namespace trireme {

struct RawEntry {
  std::string key;
  SourceLocation place;
  RawValue value;
};

// [name], one [[name]], or the keys that stand before any section (name empty).
struct RawSection {
  std::string name;
  SourceLocation place;
  bool repeated = false;  // one of [[name]]
  std::vector<RawEntry> entries;
};

// In the order of the file. Throws Error "source:line:column: ..." on text that is not TOML, a
// duplicate key included.
std::vector<RawSection> read_toml(std::string_view text, const std::string& source);

}  // namespace trireme
