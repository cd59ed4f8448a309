#pragma once
// Formatting of counts for messages.
#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace trireme {

// Returns a count with its noun in the singular or plural, such as "1 step" or "2 steps".
std::string counted(std::integral auto n, std::string_view thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

}  // namespace trireme
