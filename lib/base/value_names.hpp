#pragma once
// Names for the values of an enum. Specialize `value_names` next to the enum, in the order of its
// values:
//
//   enum class Recompute : std::uint8_t { none, block };
//   template <>
//   inline constexpr auto value_names<Recompute> = named<Recompute>("none", "block");
//
// A value without a name, or a name without a value, is a compile error.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace trireme {

// Returns true if the enum declares `value`. GCC and clang print any other value as a cast,
// "(Recompute)2".
template <auto value>
consteval bool is_listed() {
  return std::string_view(__PRETTY_FUNCTION__).find("= (") == std::string_view::npos;
}

// Returns an array of the names. Compilation fails if the number of names differs from the number
// of the enum's values.
template <class Enum, class... Text>
consteval auto named(Text... names) {
  constexpr auto n = sizeof...(names);
  static_assert(!is_listed<static_cast<Enum>(n)>(), "a value of the enum has no name");
  static_assert(is_listed<static_cast<Enum>(n - 1)>(),
                "there are more names than values in the enum");
  return std::array<std::string_view, n>{names...};
}

// Names of an enum's values, in the order of the values. Specialize this variable for each enum
// that has names.
template <class Enum>
inline constexpr std::nullptr_t value_names = nullptr;

// An enum whose values have names.
template <class Enum>
concept Named = requires {
  value_names<Enum>.size();
};

template <Named Enum>
constexpr std::string_view name_of(Enum value) {
  return value_names<Enum>[static_cast<std::size_t>(value)];
}

template <Named Enum>
std::vector<Enum> all_values() {
  std::vector<Enum> all;
  for (std::size_t i = 0; i < value_names<Enum>.size(); ++i) all.push_back(static_cast<Enum>(i));
  return all;
}

// Returns the value with this name, or nullopt if there is none.
template <Named Enum>
constexpr std::optional<Enum> value_named(std::string_view name) {
  const auto& all = value_names<Enum>;
  const auto found = std::ranges::find(all, name);
  if (found == all.end()) return std::nullopt;
  return static_cast<Enum>(found - all.begin());
}

}  // namespace trireme
