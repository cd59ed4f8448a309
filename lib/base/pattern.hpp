#pragma once
// Wildcard patterns for names.
#include <string_view>

namespace trireme {

// Returns true if the pattern matches the whole text. `*` matches any number of characters and `?`
// matches exactly one.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace trireme
