#pragma once
// Text that comes from a file, a name or a model as terminal and log may show it.
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

// In one line: \n, \t, \\, and the bytes as \x1b of other control characters, of what turns the
// direction or the line of a text, and of what is no UTF-8. Of a text that would be longer than
// `most` bytes the first ones, and how many bytes it has.
std::string escaped(std::string_view text, std::size_t most = 400);

// A message that is made already: the same without a limit, where backslashes stay and newlines
// too.
std::string without_controls(std::string_view message);

}  // namespace trireme
