#pragma once
// Functions that make text from files or models safe to print to a terminal or log.
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

// Returns the text in one line with all control characters escaped. Newline, tab and backslash
// become \n, \t and \\. Other control characters, Unicode characters that change the text direction
// or end a line, and bytes that are not valid UTF-8 become hex escapes like \x1b. A result longer
// than `most` bytes is cut, and the length of the whole text is appended.
std::string escaped(std::string_view text, std::size_t most = 400);

// Returns a complete message with control characters escaped as in escaped(), except for newlines.
// Backslashes are unchanged, and the length is not limited.
std::string without_controls(std::string_view message);

}  // namespace trireme
