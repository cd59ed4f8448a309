#pragma once
#include <string_view>

namespace trireme {

// The contents of the file VERSION, e.g. "0.1.0".
std::string_view version();

}  // namespace trireme
