#pragma once
// A deck's values apart from their keys: as read (RawValue) and as accepted (KeyValue), and the
// text forms that files and overrides share.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme {

// Line and column count from 1; line 0: not from the file.
struct SourceLocation {
  int line = 0, column = 0;
};

// A TOML value that no key accepts: a table, a date, a time.
struct ForeignValue {
  std::string kind;
};

struct RawValue {
  std::variant<bool, std::int64_t, double, std::string, std::vector<RawValue>, ForeignValue> data;
  SourceLocation place;
};

// "auto": decided by a rule that the key's meaning states.
struct Automatic {
  bool operator==(const Automatic&) const = default;
};

using KeyValue =
    std::variant<Automatic, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string>>;

// How a key's text is read: with ${NAME} from the environment, or as it stands.
enum class TextIs : std::uint8_t { expanded, literal };
// As TOML text that reads back equal: numbers in shortest round-trip form, "${" kept literal.
std::string to_toml(const KeyValue&, TextIs = TextIs::expanded);
std::string number_text(double);

// What a value is called in messages: "the text \"x\"", "a table".
std::string spoken(const RawValue&);

// The numbers of an override: 1e5, 10_000, .1; the whole text must be one. False otherwise.
bool read_number(std::string_view, std::int64_t&);
bool read_number(std::string_view, double&);
// The integer that a double is exactly; false when it is none or has more than 64 bits.
bool whole_number(double, std::int64_t&);

// UTF-8 without zero bytes.
bool is_text(std::string_view);

// Replaces ${NAME} from the environment and $${ by a literal ${. Throws Error on an undefined
// name or a missing brace.
std::string expand_environment(std::string_view);

}  // namespace trireme
