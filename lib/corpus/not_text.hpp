#pragma once
// Detects files that are not text, such as archives, arrays and other programs' token files.
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

// Number of bytes at the start of a file that are inspected.
inline constexpr std::size_t checked_beginning = std::size_t{1} << 16;

// Throws Error if `beginning`, the first bytes of the file `name`, does not look like text. The
// error says what the file probably is and what to do. Files are recognized by magic numbers, zero
// bytes and bytes that are not UTF-8. Tables and JSON are recognized by the file name and the first
// lines.
void require_text(std::string_view beginning, const std::string& name);

// Throws Error if a file of JSON lines begins like one JSON array, or is compressed, binary or
// UTF-16.
void require_json_lines(std::string_view beginning, const std::string& name);

}  // namespace trireme
