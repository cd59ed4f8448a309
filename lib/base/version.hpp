#pragma once
#include <string_view>

namespace trireme {

// What the file VERSION says, e.g. "0.1.0".
std::string_view version();

}  // namespace trireme
