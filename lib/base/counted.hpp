#pragma once
// Numbers of things, for people.
#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace trireme {

// "1 step", "2 steps".
std::string counted(std::integral auto n, std::string_view thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

}  // namespace trireme
