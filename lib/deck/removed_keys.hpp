#pragma once
// Keys that earlier versions had. Checkpoints and run directories contain decks with every key, so
// removed keys are ignored in a deck, with a warning if they had been set. As an override, a
// removed key is an error.
#include <cstdint>
#include <string_view>
#include <variant>

namespace trireme {

// A removed key.
struct RemovedKey {
  std::string_view path;  // "section.key"
  // The default value, as it is in decks that earlier versions wrote.
  std::variant<bool, std::int64_t> unset;
  // The rest of a sentence that begins with the path.
  std::string_view says;
};

// Returns nullptr if the key was never removed.
const RemovedKey* find_removed(std::string_view path);

}  // namespace trireme
