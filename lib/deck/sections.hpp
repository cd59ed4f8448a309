#pragma once
// Shared by the table's files: a builder of keys, and one function for each section.
#include <string>
#include <utility>
#include <vector>

#include "lib/base/limits.hpp"
#include "lib/deck/access.hpp"
#include "lib/deck/key.hpp"

namespace trireme {

inline constexpr double int32_most = 2147483647;  // ids, extents
inline constexpr double step_most = double{most_counted};
inline constexpr double row_most = 1 << 24;  // channels, samples: products stay below 2^63

// A key under construction: each call adds one property, in the order of reading.
struct KeyRow : DeckKey {
  KeyRow(std::string key_name, ValueKind value_kind, DeckAccess key_access, std::string text) {
    name = std::move(key_name);
    kind = value_kind;
    access = std::move(key_access);
    meaning = std::move(text);
  }
  KeyRow in(double min, double max) { return range = Interval{min, max, false, false}, *this; }
  KeyRow inside(double min, double max) { return range = Interval{min, max, true, true}, *this; }
  KeyRow below(double min, double max) { return range = Interval{min, max, false, true}, *this; }
  KeyRow above(double min, double max) { return range = Interval{min, max, true, false}, *this; }
  KeyRow of(std::vector<std::string> names) { return choices = std::move(names), *this; }
  KeyRow or_path_behind(std::string text) { return prefix = std::move(text), *this; }
  KeyRow in_units(std::string text) { return unit = std::move(text), *this; }
  KeyRow elements(std::size_t n) { return count = n, *this; }
  KeyRow automatically(std::string rule) { return automatic = std::move(rule), *this; }
  KeyRow or_word(std::string text, std::string rule) {
    return word = std::move(text), of_word = std::move(rule), *this;
  }
  KeyRow like(std::string text) { return example = std::move(text), *this; }
  KeyRow needed() { return required = true, *this; }
  KeyRow in_f32() { return rounded_to_f32 = true, *this; }
  KeyRow unset_at_zero() { return zero_is_unset = true, *this; }
};

// A choice among values of an enum.
template <class Reach, class Section, class Enum>
KeyRow choice_of(std::string name, Reach reach, Enum Section::*field, std::string meaning,
                 std::vector<Enum> values = all_values<Enum>()) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(name_of(value));
  return KeyRow(std::move(name), ValueKind::choice, named_member(reach, field, std::move(values)),
                std::move(meaning))
      .of(std::move(names));
}

DeckSection model_section();
DeckSection data_section();
DeckSection train_section();
DeckSection optimizer_section();
DeckSection schedule_section();
DeckSection precision_section();
DeckSection parallel_section();
DeckSection zero_section();
DeckSection freeze_section();
DeckSection evaluate_section();
DeckSection checkpoint_section();
DeckSection run_section();

}  // namespace trireme
