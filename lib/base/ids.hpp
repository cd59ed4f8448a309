#pragma once
// Index types for different kinds of objects. The compiler does not convert one type to another.
// The value -1 means "none".
#include <compare>
#include <cstddef>
#include <cstdint>

namespace trireme {

// Index of a parameter of the model.
struct ParamId {
  std::int32_t value = -1;
  static constexpr ParamId at(std::size_t i) { return {static_cast<std::int32_t>(i)}; }
  auto operator<=>(const ParamId&) const = default;
  std::size_t index() const { return static_cast<std::size_t>(value); }
};

// Index of a unit: a set of parameters that ranks all-gather together.
struct UnitId {
  std::int32_t value = -1;
  static constexpr UnitId at(std::size_t i) { return {static_cast<std::int32_t>(i)}; }
  auto operator<=>(const UnitId&) const = default;
  std::size_t index() const { return static_cast<std::size_t>(value); }
};

}  // namespace trireme
