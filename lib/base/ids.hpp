#pragma once
// Indices that say what they index. -1 is "none".
#include <compare>
#include <cstddef>
#include <cstdint>

namespace trireme {

struct ParamId {
  std::int32_t value = -1;
  static constexpr ParamId at(std::size_t i) { return {static_cast<std::int32_t>(i)}; }
  auto operator<=>(const ParamId&) const = default;
  std::size_t index() const { return static_cast<std::size_t>(value); }
};

struct UnitId {
  std::int32_t value = -1;
  static constexpr UnitId at(std::size_t i) { return {static_cast<std::int32_t>(i)}; }
  auto operator<=>(const UnitId&) const = default;
  std::size_t index() const { return static_cast<std::size_t>(value); }
};

}  // namespace trireme
