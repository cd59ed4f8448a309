#pragma once
// Files that are no text: archives, arrays, token files of other programs.
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

// How much of a file is looked at.
inline constexpr std::size_t checked_beginning = std::size_t{1} << 16;

// Throws Error when `beginning`, the first bytes of the file `name`, is not the beginning of a
// text: it says what the file is and what to do. Known from magic numbers, bytes that are zero,
// and the bytes that are no UTF-8; of tables and JSON, from the name and the first lines.
void require_text(std::string_view beginning, const std::string& name);

// Throws Error when a file of JSON lines begins as one array of all does, or is packed, binary or
// UTF-16.
void require_json_lines(std::string_view beginning, const std::string& name);

}  // namespace trireme
