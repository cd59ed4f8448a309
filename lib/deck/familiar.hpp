#pragma once
// Names and values that other trainers use for settings that have different names here. They appear
// in hints of error messages and are never accepted.
#include <span>
#include <string>
#include <string_view>

#include "lib/keys/key.hpp"

namespace trireme {

// Name of a setting in other trainers, and its counterpart in a deck.
struct FamiliarName {
  std::string_view name;  // lower case, with underscores
  // The "section.key" that has the same meaning or determines the setting. Empty if there is none.
  std::string_view key;
  // Rest of a sentence that begins with the name. Empty means "is KEY here".
  std::string_view says;
  bool unsupported() const { return says.starts_with("is not supported"); }
};
// Returns the whole table.
std::span<const FamiliarName> familiar_names();

// Returns the table row for a name, or nullptr if there is none. Case and dashes are ignored, and a
// section may precede the name. A row without counterpart is also found if it matches one word of
// the name or its section ("moe.layers", "use_lora").
const FamiliarName* find_familiar(std::string_view name);

// Returns a hint such as "learning_rate is optimizer.lr here".
std::string hint_of(const FamiliarName&);

// Another spelling of a value, for example "bfloat16" for "bf16".
struct FamiliarValue {
  std::string_view value, ours;
};
// Returns the whole table.
std::span<const FamiliarValue> familiar_values();

// Returns what a text means that is not one of a key's choices (Key::familiar).
FamiliarChoice familiar_choice(std::string_view text);

}  // namespace trireme
