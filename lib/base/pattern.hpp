#pragma once
// Patterns of names.
#include <string_view>

namespace trireme {

// * matches any run of characters, ? any one.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace trireme
