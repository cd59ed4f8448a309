#pragma once
// Declarations of the keys of a text file. A Key describes one key: its type, range and meaning,
// and the struct member that holds its value. Decks and machine files are read and written through
// tables of keys.
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

// Type of a key's value.
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

// A range of numbers, inclusive at both ends by default.
struct Interval {
  double min = 0, max = 0;
  bool above_min = false, below_max = false;  // exclude min or max itself
};

// A pointer to the struct that a table of keys describes. Its type is erased so that one reader
// serves all tables. `Void` is void or const void.
template <class Void>
class AnyStruct {
 public:
  template <class T>
  requires(!std::is_same_v<std::remove_const_t<T>, AnyStruct>) AnyStruct(T& all)
      : at_(&all), type_(&typeid(T)) {}
  // Returns a reference to the struct. T must be the struct's type. T may be const.
  template <class T>
  T& as() const {
    expect(*type_ == typeid(T), "the key belongs to this struct");
    return *static_cast<T*>(at_);
  }

 private:
  Void* at_;
  const std::type_info* type_;
};

// Functions that read and write a key's value in a struct. `row` is the index of an entry in a
// repeated section such as [[freeze]], and 0 in other sections.
struct KeyAccess {
  std::function<KeyValue(AnyStruct<const void>, std::size_t row)> get;
  std::function<void(AnyStruct<void>, std::size_t row, const KeyValue&)> set;
};

// What a text that is not one of a key's choices means in other programs.
struct FamiliarChoice {
  std::string_view ours;     // the choice with the same meaning; empty if there is none
  bool unsupported = false;  // names a feature that does not exist here
};

// The declaration of one key.
struct Key {
  std::string section, name;
  ValueKind kind = ValueKind::flag;
  std::string unit;
  std::string meaning;  // one line
  std::optional<Interval> range;
  std::vector<std::string> choices;
  // Returns what a text that is not in `choices` means in other programs, for the error message.
  // May be null.
  FamiliarChoice (*familiar)(std::string_view) = nullptr;
  // Prefix for a value that consists of the prefix and a path, as an alternative to `choices`.
  // Empty allows only `choices`.
  std::string prefix;
  std::size_t count = 0;        // number of elements that an array must have; 0 allows any number
  bool ascending = false;       // the array must be ascending and not empty
  std::string word, of_word;    // A text that an integer key also accepts, and its meaning.
  std::string automatic;        // the meaning of "auto"; empty if "auto" is not accepted
  std::string example;          // shown if there is no sensible default
  bool required = false;        // the template shows the example uncommented
  bool literal = false;         // the text is used without expanding ${NAME}
  bool zero_is_unset = false;   // 0 means "not given" and cannot be written
  bool rounded_to_f32 = false;  // rounded to f32 unless precision.compute is f64
  bool of_run = false;          // a setting of the run in a section that describes the model
  KeyAccess access;

  std::string path() const { return section.empty() ? name : section + "." + name; }
};

// The declaration of a section and its keys.
struct KeySection {
  std::string name;
  std::string meaning;
  bool repeated = false;  // written [[name]]
  std::vector<Key> keys;
  // For a repeated section, count() returns the number of entries, and append() adds an entry.
  std::function<std::size_t(AnyStruct<const void>)> count = {};
  std::function<void(AnyStruct<void>)> append = {};
  std::vector<std::string> other_names = {};  // names that users may try

  std::string header() const { return repeated ? "[[" + name + "]]" : "[" + name + "]"; }
  std::size_t rows(AnyStruct<const void> all) const { return repeated ? count(all) : 1; }
};

// Returns the sections after setting Key::section in each key.
std::vector<KeySection> table_of(std::vector<KeySection>);

// Return the section or key with this name, or nullptr if it is not declared.
const KeySection* find_section(const std::vector<KeySection>&, std::string_view name);
const Key* find_key(const KeySection&, std::string_view name);

// Returns true if the value means that the key is not given (Key::zero_is_unset).
bool is_unset(const Key&, const KeyValue&);
// Returns the name of a key in an entry of a repeated section: "section.key" in the first entry,
// and "section.key#row" in later ones. `path` is "section.key".
std::string key_in_row(std::string_view path, std::size_t row);

// Returns the key's type for messages, such as "a whole number" or "a path or an array of paths".
std::string kind_text(const Key&);
// Describes the accepted values for messages, such as "1 to 64", "above 0" or "f32, bf16 or f64".
// Returns an empty string if any value is accepted.
std::string range_text(const Key&);

// The exception that accepted() throws. It contains the location of the value in the file.
struct BadValue : std::exception {
  BadValue(std::string_view text, SourceLocation at) : message(without_nul(text)), place(at) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
  SourceLocation place;
};

// Checks a value against the key's type, range and choices. Expands environment variables and makes
// paths absolute. Throws BadValue with a message that names the key.
KeyValue accepted(const Key&, const RawValue&);
// Parses the value in a command-line override according to the key's type. Text that is not of this
// type is returned as text, which accepted() then rejects.
RawValue raw_from_text(const Key&, std::string_view);

}  // namespace trireme
