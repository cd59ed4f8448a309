#pragma once
// Formatting of counts for messages.
#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// Returns a count with its noun in the singular or plural, such as "1 step" or "2 steps".
std::string counted(std::integral auto n, std::string_view thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

// Formats a large count: exactly below 10,000, then as "12.35K" or "84.93M".
inline std::string count_text(std::int64_t n) {
  if (n < 10'000) return fmt::format("{}", n);
  const auto count = static_cast<double>(n);
  // 999,995 would be rounded to 1000.00K.
  return count < 999'995 ? fmt::format("{:.2f}K", count * 1e-3)
                         : fmt::format("{:.2f}M", count * 1e-6);
}

}  // namespace trireme
