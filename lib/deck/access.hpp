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

// Reach one struct of the deck: a section, or an entry of a repeated one.
template <class Section>
auto section_of(Section Deck::*section) {
  return [section](auto& deck, std::size_t) -> auto& {
    return deck.*section;
  };
}
template <class Entry>
auto entry_of(std::vector<Entry> Deck::*entries) {
  return [entries](auto& deck, std::size_t row) -> auto& {
    return (deck.*entries).at(row);
  };
}

// A plain member. Automatic is its empty value: 0 or no elements.
template <class Reach, class Section, class T>
DeckAccess member(Reach reach, T Section::*field) {
  return {[=](const Deck& d, std::size_t row) -> DeckValue { return reach(d, row).*field; },
          [=](Deck& d, std::size_t row, const DeckValue& v) {
            reach(d, row).*field = std::holds_alternative<Automatic>(v) ? T{} : std::get<T>(v);
          }};
}

// The same where the empty value reads back as Automatic.
template <class Reach, class Section, class T>
DeckAccess automatic_member(Reach reach, T Section::*field) {
  DeckAccess access = member(reach, field);
  access.get = [=](const Deck& d, std::size_t row) -> DeckValue {
    const T& value = reach(d, row).*field;
    if (value == T{}) return Automatic{};
    return value;
  };
  return access;
}

// The same where `word` stands for a flag that is set instead.
template <class Reach, class Section, class Flagged>
DeckAccess worded_member(Reach reach, std::int64_t Section::*field, const std::string& word,
                         bool Flagged::*of_word) {
  const DeckAccess plain = automatic_member(reach, field);
  return {[=](const Deck& d, std::size_t row) -> DeckValue {
            if (reach(d, row).*of_word) return word;
            return plain.get(d, row);
          },
          [=](Deck& d, std::size_t row, const DeckValue& v) {
            const bool worded = std::holds_alternative<std::string>(v);
            reach(d, row).*of_word = worded;
            plain.set(d, row, worded ? DeckValue(Automatic{}) : v);
          }};
}

// An enum by the names of these values.
template <class Reach, class Section, class Enum>
DeckAccess named_member(Reach reach, Enum Section::*field, std::vector<Enum> values) {
  return {[=](const Deck& d, std::size_t row) -> DeckValue {
            return std::string(name_of(reach(d, row).*field));
          },
          [=](Deck& d, std::size_t row, const DeckValue& v) {
            const auto* name = std::get_if<std::string>(&v);
            for (const auto value : values)
              if (name && name_of(value) == *name) reach(d, row).*field = value;
          }};
}

}  // namespace trireme
