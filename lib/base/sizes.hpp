#pragma once
// Formatting of byte counts for users. Memory uses powers of 2. Network traffic and files use
// powers of 10.
#include <fmt/format.h>

#include <array>
#include <string>

namespace trireme {

namespace detail {

// Formats a number with the largest unit that gives a value of at least 1. If rounding gives a
// whole `step`, the next unit is used.
inline std::string sized(double bytes, double step, int digits,
                         const std::array<const char*, 6>& units) {
  std::size_t u = 0;
  const double half = digits == 1 ? 0.05 : 0.005;
  for (; u + 1 < units.size() && bytes >= step - (u == 0 ? 0 : half); ++u) bytes /= step;
  return fmt::format("{:.{}f} {}", bytes, u == 0 ? 0 : digits, units[u]);
}

}  // namespace detail

// Formats an amount of memory, such as "35.6 GiB".
inline std::string memory_text(double bytes) {
  return detail::sized(bytes, 1024, 1, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}
// Formats an amount of traffic or storage, such as "16.95 TB".
inline std::string traffic_text(double bytes) {
  return detail::sized(bytes, 1000, 2, {"B", "kB", "MB", "GB", "TB", "PB"});
}

}  // namespace trireme
