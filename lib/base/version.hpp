#pragma once
#include <string_view>

namespace trireme {

// Returns the content of the file VERSION, such as "0.1.0".
std::string_view version();

// Returns the commit from which this program was built. A "+" follows if files had been changed
// since that commit. An empty string means that the commit is unknown.
std::string_view commit();

// Returns the compiler's name and version, such as "GCC 12.2.0".
std::string_view compiler();

}  // namespace trireme
