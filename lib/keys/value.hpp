#pragma once
// Values of keys, first as read from a file (RawValue) and then as accepted (KeyValue), and the
// text forms that files and command-line overrides share.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme {

// A location in a file. Line and column count from 1. Line 0 means that the value does not come
// from a file.
struct SourceLocation {
  int line = 0, column = 0;
};

// A TOML value that no key accepts, such as a table, date or time.
struct ForeignValue {
  std::string kind;
};

// A value as read, before its type has been checked.
struct RawValue {
  std::variant<bool, std::int64_t, double, std::string, std::vector<RawValue>, ForeignValue> data;
  SourceLocation place;
};

// The value "auto". The key's meaning states the rule that determines the value.
struct Automatic {
  bool operator==(const Automatic&) const = default;
};

using KeyValue =
    std::variant<Automatic, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string>>;

// Whether ${NAME} in a text is replaced by the environment variable or kept unchanged.
enum class TextIs : std::uint8_t { expanded, literal };
// Converts a value to TOML text that parses to an equal value. Numbers use their shortest
// round-trip form. "${" is escaped so that it is not expanded.
std::string to_toml(const KeyValue&, TextIs = TextIs::expanded);
// Returns the shortest text that parses to the same number.
std::string number_text(double);

// Returns a description of a value for messages, such as "the text \"x\"" or "a table".
std::string spoken(const RawValue&);

// Parse the whole text as a number, in the forms that overrides allow: 1e5, 10_000, .1. Return
// false if the text is not a number.
bool read_number(std::string_view, std::int64_t&);
bool read_number(std::string_view, double&);
// Converts a double to an integer. Returns false if the double is not a whole number or does not
// fit in 64 bits.
bool whole_number(double, std::int64_t&);

// Returns true for UTF-8 text without zero bytes.
bool is_text(std::string_view);

// Replaces ${NAME} by the value of the environment variable NAME, and $${ by a literal ${. Throws
// Error if a variable is undefined or a brace is missing.
std::string expand_environment(std::string_view);

}  // namespace trireme
