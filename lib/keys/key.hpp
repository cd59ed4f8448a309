#pragma once
// One declared key of a text file: its type, range, meaning, and the member of a struct that has
// its value. Decks, machine files and chat templates are read and written through tables of them.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/keys/value.hpp"

namespace trireme {

enum class ValueKind : std::uint8_t {
  flag,
  integer,
  real,
  duration,  // seconds, or "hh:mm:ss"
  text,
  path,
  choice,
  integers,
  reals,
  texts,
  paths,
  fraction_or_paths,
};

struct Interval {
  double min = 0, max = 0;
  bool above_min = false, below_max = false;  // min and max themselves are excluded
};

// The struct that a table is of, whatever its type: one reader serves all tables.
template <class Void>
class AnyStruct {
 public:
  template <class T>
  requires(!std::is_same_v<std::remove_const_t<T>, AnyStruct>) AnyStruct(T& all)
      : at_(&all), type_(&typeid(T)) {}
  // T may be const.
  template <class T>
  T& as() const {
    expect(*type_ == typeid(T), "a key is of another struct");
    return *static_cast<T*>(at_);
  }

 private:
  Void* at_;
  const std::type_info* type_;
};

// `row` counts the entries of a repeated section ([[freeze]]) and is 0 elsewhere.
struct KeyAccess {
  std::function<KeyValue(AnyStruct<const void>, std::size_t row)> get;
  std::function<void(AnyStruct<void>, std::size_t row, const KeyValue&)> set;
};

struct Key {
  std::string section, name;
  ValueKind kind = ValueKind::flag;
  std::string unit;
  std::string meaning;  // one line
  std::optional<Interval> range;
  std::vector<std::string> choices;
  std::string prefix;           // beside the choices: a text that begins so, and behind it a path
  std::size_t count = 0;        // elements that an array must have; 0: any number
  bool ascending = false;       // so do an array's elements, of which there is one at least
  std::string word, of_word;    // a text that an integer key takes, too, and what it means
  std::string automatic;        // what "auto" means; empty: "auto" is not accepted
  std::string example;          // shown where there is no sensible default
  bool required = false;        // the template shows its example uncommented
  bool literal = false;         // a text without ${NAME}
  bool zero_is_unset = false;   // 0 is "not given" and cannot be written
  bool rounded_to_f32 = false;  // where precision.compute is not f64
  KeyAccess access;

  std::string path() const { return section.empty() ? name : section + "." + name; }
};

struct KeySection {
  std::string name;
  std::string meaning;
  bool repeated = false;  // [[name]]
  std::vector<Key> keys;
  // Of a repeated section: how many there are, and one more.
  std::function<std::size_t(AnyStruct<const void>)> count = {};
  std::function<void(AnyStruct<void>)> append = {};

  std::string header() const { return repeated ? "[[" + name + "]]" : "[" + name + "]"; }
  std::size_t rows(AnyStruct<const void> all) const { return repeated ? count(all) : 1; }
};

// Sections as a table has them: their keys know of which one they are.
std::vector<KeySection> table_of(std::vector<KeySection>);

// nullptr when absent.
const KeySection* find_section(const std::vector<KeySection>&, std::string_view name);
const Key* find_key(const KeySection&, std::string_view name);

// "whole number", "array of paths".
std::string kind_text(const Key&);
// "1 to 64", "above 0", "f32, bf16 or f64"; empty when any value goes.
std::string range_text(const Key&);

struct BadValue : std::exception {
  BadValue(std::string text, SourceLocation at) : message(std::move(text)), place(at) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
  SourceLocation place;
};

// Type, range, choices, environment and absolute paths. Throws BadValue; its message names the key.
KeyValue accepted(const Key&, const RawValue&);
// An override's text, read by the key's declared type; what is no such value stays text, which
// `accepted` refuses.
RawValue raw_from_text(const Key&, std::string_view);

}  // namespace trireme
