#pragma once
// Keys that decks of earlier versions have and this one has not. Checkpoints and run directories
// keep decks with every key, so a value under which nothing changes is read over.
#include <string_view>

namespace trireme {

struct FormerKey {
  std::string_view path;  // "section.key"
  bool as_now;            // the value, of a flag, that means what is done now
  std::string_view says;  // the rest of a sentence that begins with the path
};

// nullptr when there never was such a key, or still is.
const FormerKey* find_former(std::string_view path);

}  // namespace trireme
