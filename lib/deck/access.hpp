#pragma once
// Accessors of deck keys made from pointers to members.
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/deck/key.hpp"

namespace trireme {

// Reaches one struct of the deck.
template <class Section>
auto part_of(Section Deck::*section) {
  return [section](auto& deck, std::size_t) -> auto& {
    return deck.*section;
  };
}
template <class Row>
auto row_of(std::vector<Row> Deck::*rows) {
  return [rows](auto& deck, std::size_t row) -> auto& {
    return (deck.*rows).at(row);
  };
}

// A plain member. Automatic is its empty value: 0 or no elements.
template <class Part, class Section, class T>
DeckAccess member(Part part, T Section::*field) {
  return {[=](const Deck& d, std::size_t row) -> DeckValue { return part(d, row).*field; },
          [=](Deck& d, std::size_t row, const DeckValue& v) {
            part(d, row).*field = std::holds_alternative<Automatic>(v) ? T{} : std::get<T>(v);
          }};
}

// The same where the empty value reads back as Automatic.
template <class Part, class Section, class T>
DeckAccess automatic_member(Part part, T Section::*field) {
  DeckAccess access = member(part, field);
  access.get = [=](const Deck& d, std::size_t row) -> DeckValue {
    const T& value = part(d, row).*field;
    if (value == T{}) return Automatic{};
    return value;
  };
  return access;
}

// An enum: names in the order of its enumerators.
template <class Part, class Section, class Enum>
DeckAccess named_member(Part part, Enum Section::*field, std::vector<std::string> names) {
  static_assert(std::is_enum_v<Enum>);
  return {[=](const Deck& d, std::size_t row) -> DeckValue {
            return names.at(static_cast<std::size_t>(part(d, row).*field));
          },
          [=](Deck& d, std::size_t row, const DeckValue& v) {
            const auto* name = std::get_if<std::string>(&v);
            for (std::size_t i = 0; name && i < names.size(); ++i) {
              if (names[i] == *name) part(d, row).*field = static_cast<Enum>(i);
            }
          }};
}

}  // namespace trireme
