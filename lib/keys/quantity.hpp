#pragma once
// Quantities with units as people type them: 80G, 01:30:00.
#include <cstdint>
#include <string_view>

namespace trireme {

// "80G", "80Gi" and "80GiB" -> 80*2^30, "80GB" -> 80*10^9, "80B" -> 80, and so for K, M and T in
// either case; a plain number is one of bytes, from 2^20 on. Throws Error, which asks for the unit
// of a smaller one.
std::int64_t parse_byte_count(std::string_view);
// "hh:mm:ss", "mm:ss" or seconds -> seconds. Throws Error.
double parse_duration(std::string_view);

}  // namespace trireme
