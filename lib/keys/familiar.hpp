#pragma once
// Names and values that other trainers use for what a deck says in words of its own: for hints,
// never accepted.
#include <span>
#include <string>
#include <string_view>

namespace trireme {

struct FamiliarName {
  std::string_view name;  // lower case, with underscores
  std::string_view key;   // "section.key" that means the same or decides it; empty: none does
  std::string_view says;  // the rest of a sentence that begins with the name; empty: "is KEY here"
};
std::span<const FamiliarName> familiar_names();

// The row of a name in any spelling of case and dashes, after a section or without one; of one that
// no key stands for also where it is a word of the name or its section ("moe.layers", "use_lora").
// nullptr when absent.
const FamiliarName* find_familiar(std::string_view name);

// "learning_rate is optimizer.lr here".
std::string hint_of(const FamiliarName&);

// A choice's value in other words: "bfloat16" is "bf16".
struct FamiliarValue {
  std::string_view value, ours;
};
std::span<const FamiliarValue> familiar_values();

}  // namespace trireme
