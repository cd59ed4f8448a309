#pragma once
// Keys that existed in earlier versions. Checkpoints and run directories contain decks with every
// key. A removed key in a deck is therefore ignored, with a warning if it was set. A removed key in
// an override is an error.
#include <cstdint>
#include <string_view>
#include <variant>

namespace trireme {

// A removed key.
struct RemovedKey {
  std::string_view path;  // "section.key"
  // The default value that decks of earlier versions contain.
  std::variant<bool, std::int64_t> unset;
  // Reason for the removal and what to do, as the rest of a sentence that begins with the key's
  // path.
  std::string_view says;
};

// Returns the removed key with this path, or nullptr if there is none.
const RemovedKey* find_removed(std::string_view path);

}  // namespace trireme
