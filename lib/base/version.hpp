#pragma once
#include <string_view>

namespace trireme {

// The contents of the file VERSION, e.g. "0.1.0".
std::string_view version();

// The commit it was built from, with a + where files had changed since; empty: unknown.
std::string_view commit();

// The compiler's name and version, e.g. "GCC 12.2.0".
std::string_view compiler();

}  // namespace trireme
