#pragma once
// Parsers for quantities with units as users type them: 80G, 01:30:00.
#include <cstdint>
#include <string_view>

namespace trireme {

// Returns a number of bytes. "80G", "80Gi" and "80GiB" are 80*2^30, "80GB" is 80*10^9 and "80B" is
// 80. K, M and T have corresponding meanings, in upper or lower case. A plain number counts bytes
// and must be 0 or at least 2^20. Throws Error if the text is invalid, or if a smaller plain number
// needs a unit.
std::int64_t parse_byte_count(std::string_view);
// Parses a duration and returns it in seconds. Accepts "hh:mm:ss", "mm:ss" or a plain number of
// seconds. Throws Error if the text is invalid.
double parse_duration(std::string_view);

}  // namespace trireme
