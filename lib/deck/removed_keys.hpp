#pragma once
// Keys that decks of earlier versions have and this one has not. Checkpoints and run directories
// keep decks with every key, so in a deck they are ignored, with a warning where one was set; as
// an override they are refused.
#include <cstdint>
#include <string_view>
#include <variant>

namespace trireme {

struct RemovedKey {
  std::string_view path;                   // "section.key"
  std::variant<bool, std::int64_t> unset;  // its default, as decks that were written have it
  std::string_view says;                   // the rest of a sentence that begins with the path
};

// nullptr when there never was such a key, or still is.
const RemovedKey* find_removed(std::string_view path);

}  // namespace trireme
