#pragma once
// Builders for tables of keys. A row is made from a pointer to a member. The member's type
// determines the key's type. Each chained call adds one property.
//
//   const auto row = rows_of(&Deck::model);
//   row("layers", &ModelConfig::layers, "Number of transformer blocks").in(1, 10000)
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/base/value_names.hpp"
#include "lib/keys/key.hpp"

namespace trireme {

// A key under construction. Each method sets one property and returns the key.
struct KeyRow : Key {
  KeyRow(std::string key_name, ValueKind value_kind, KeyAccess key_access, std::string text) {
    name = std::move(key_name);
    kind = value_kind;
    access = std::move(key_access);
    meaning = std::move(text);
  }
  KeyRow as(ValueKind k) { return kind = k, *this; }
  // Set the range of accepted numbers. in() includes both ends, inside() excludes both, below()
  // excludes only max and above() excludes only min.
  KeyRow in(double min, double max) { return range = Interval{min, max, false, false}, *this; }
  KeyRow inside(double min, double max) { return range = Interval{min, max, true, true}, *this; }
  KeyRow below(double min, double max) { return range = Interval{min, max, false, true}, *this; }
  KeyRow above(double min, double max) { return range = Interval{min, max, true, false}, *this; }
  KeyRow of(std::vector<std::string> names) {
    return kind = ValueKind::choice, choices = std::move(names), *this;
  }
  KeyRow or_path_behind(std::string text) { return prefix = std::move(text), *this; }
  KeyRow in_units(std::string text) { return unit = std::move(text), *this; }
  KeyRow elements(std::size_t n) { return count = n, *this; }
  KeyRow in_order() { return ascending = true, *this; }
  // Makes the key accept "auto", whose rule `rule` explains. When the key is read back from a
  // struct, an empty or zero member becomes Automatic.
  KeyRow automatically(std::string rule);
  KeyRow automatically_where_absent(std::string rule) { return automatic = std::move(rule), *this; }
  KeyRow or_word(std::string text, std::string rule) {
    return word = std::move(text), of_word = std::move(rule), *this;
  }
  KeyRow like(std::string text) { return example = std::move(text), *this; }
  KeyRow needed() { return required = true, *this; }
  KeyRow literally() { return literal = true, *this; }
  KeyRow in_f32() { return rounded_to_f32 = true, *this; }
  KeyRow for_run() { return of_run = true, *this; }
  KeyRow unset_at_zero() { return zero_is_unset = true, *this; }
};

// Value type of a member: T for both T and std::optional<T>.
template <class T>
struct OfMember {
  using Value = T;
};
template <class T>
struct OfMember<std::optional<T>> {
  using Value = T;
};

template <class T>
constexpr ValueKind kind_of() {
  if constexpr (std::is_same_v<T, bool>) return ValueKind::flag;
  if constexpr (std::is_same_v<T, std::int64_t>) return ValueKind::integer;
  if constexpr (std::is_same_v<T, double>) return ValueKind::real;
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return ValueKind::integers;
  if constexpr (std::is_same_v<T, std::vector<double>>) return ValueKind::reals;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return ValueKind::texts;
  return ValueKind::text;
}

// Makes rows for one section of the struct `Root`. `Reach` is a function (Root& or const Root&,
// row) that returns a reference to the section, or to one entry of a repeated section.
template <class Root, class Reach>
class RowMaker {
 public:
  explicit RowMaker(Reach reach) : reach_(reach) {}

  // Returns a row for a plain or optional member. For an optional member, Automatic stands for
  // absent.
  template <class Struct, class T>
  KeyRow operator()(std::string name, T Struct::*field, std::string meaning) const {
    using Value = typename OfMember<T>::Value;
    if constexpr (std::is_enum_v<Value>)
      return (*this)(std::move(name), field, std::move(meaning), all_values<Value>());
    else
      return {std::move(name), kind_of<Value>(),
              access([field](const auto& s) { return value_of(s.*field); },
                     [field](auto& s, const KeyValue& v) {
                       const auto* given = std::get_if<Value>(&v);
                       s.*field = given ? T(*given) : T{};
                     }),
              std::move(meaning)};
  }
  // Returns a row for an enum member that accepts only `values`.
  template <class Struct, class T>
  KeyRow operator()(std::string name, T Struct::*field, std::string meaning,
                    std::vector<typename OfMember<T>::Value> values) const {
    std::vector<std::string> names;
    for (const auto value : values) names.emplace_back(name_of(value));
    return KeyRow(std::move(name), ValueKind::choice,
                  access([field](const auto& s) { return named_value(s.*field); },
                         [field, values = std::move(values)](auto& s, const KeyValue& v) {
                           const auto* given = std::get_if<std::string>(&v);
                           for (const auto value : values)
                             if (given && name_of(value) == *given) s.*field = value;
                         }),
                  std::move(meaning))
        .of(std::move(names));
  }
  // Returns access to a value that is not a single member. Two functions on the section get and set
  // the value.
  template <class Get, class Set>
  KeyAccess access(Get get, Set set) const {
    return {[reach = reach_, get](AnyStruct<const void> all, std::size_t row) -> KeyValue {
              return get(reach(all.as<const Root>(), row));
            },
            [reach = reach_, set](AnyStruct<void> all, std::size_t row, const KeyValue& v) {
              set(reach(all.as<Root>(), row), v);
            }};
  }

 private:
  template <class T>
  static KeyValue value_of(const T& member) {
    return member;
  }
  template <class T>
  static KeyValue value_of(const std::optional<T>& member) {
    return member ? KeyValue(*member) : KeyValue(Automatic{});
  }
  template <class T>
  static KeyValue named_value(const T& member) {
    return std::string(name_of(member));
  }
  template <class T>
  static KeyValue named_value(const std::optional<T>& member) {
    return member ? named_value(*member) : KeyValue(Automatic{});
  }

  Reach reach_;
};

// Returns a RowMaker for keys that are members of Root itself.
template <class Root>
auto rows_of() {
  const auto reach = [](auto& root, std::size_t) -> auto& {
    return root;
  };
  return RowMaker<Root, decltype(reach)>(reach);
}
// Returns a RowMaker for a section that is a member of Root.
template <class Root, class Section>
auto rows_of(Section Root::*section) {
  const auto reach = [section](auto& root, std::size_t) -> auto& {
    return root.*section;
  };
  return RowMaker<Root, decltype(reach)>(reach);
}
// Returns a RowMaker for a repeated section. `entries` is a function (Root& or const Root&) that
// returns a reference to the vector of its entries, or the vector member of Root.
template <class Root, class Entries>
auto rows_of_entries(Entries entries) {
  const auto reach = [entries](auto& root, std::size_t row) -> auto& {
    return std::invoke(entries, root).at(row);
  };
  return RowMaker<Root, decltype(reach)>(reach);
}
template <class Root, class Entry>
auto rows_of(std::vector<Entry> Root::*entries) {
  return rows_of_entries<Root>(entries);
}

// Returns the declaration of a repeated section. `entries` is as in rows_of_entries().
template <class Root, class Entries>
KeySection repeated(Entries entries, std::string name, std::string meaning, std::vector<Key> keys) {
  return {std::move(name),
          std::move(meaning),
          true,
          std::move(keys),
          [entries](AnyStruct<const void> all) {
            return std::invoke(entries, all.as<const Root>()).size();
          },
          [entries](AnyStruct<void> all) { std::invoke(entries, all.as<Root>()).emplace_back(); }};
}
template <class Root, class Entry>
KeySection repeated(std::vector<Entry> Root::*entries, std::string name, std::string meaning,
                    std::vector<Key> keys) {
  return repeated<Root, std::vector<Entry> Root::*>(entries, std::move(name), std::move(meaning),
                                                    std::move(keys));
}

}  // namespace trireme
