#pragma once
// Parsing of JSON, and access to its values with checks of their type and range. All JSON files are
// read through these functions. Error messages name the member or, for invalid syntax, the position
// in the text. The caller adds the name of the file.
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"

namespace trireme {

using Json = nlohmann::json;
// Keeps the order of members. Chat templates write objects in this order.
using OrderedJson = nlohmann::ordered_json;

// Parses a text in linear time. Throws Error if the syntax is invalid, an object contains a name
// twice, a number overflows, or values are nested more than 64 levels deep. Deeper nesting could
// overflow the stack of recursive functions, and no supported file needs it.
Json parse_json(std::string_view text);
// Like parse_json(). Throws Error if an integer does not fit into 64 bits, which would change it.
OrderedJson parse_ordered_json(std::string_view text);
// Parses a text that must be an object. Error messages begin with "`where` is damaged: ".
Json parse_object(std::string_view text, std::string_view where);
// Parses an object but returns only the value of one member, or null if the member is missing. The
// other members are skipped to save memory: a parsed tokenizer vocabulary is many times larger than
// its text.
Json parse_member(std::string_view text, std::string_view member, std::string_view where);

// Formats the value like Hugging Face's programs: two spaces per level, and a newline at the end.
std::string to_lines(const Json&);

// Formats the value in ASCII for use in a message. Long values are cut.
std::string shown(const Json&);

// Returns an integer in [low, high]. Throws Error, naming the member `what`, if the value is
// outside the range or not an integer. A float is rejected even if it has no fraction.
std::int64_t integer(const Json&, std::string_view what, std::int64_t low = 0,
                     std::int64_t high = std::numeric_limits<std::int64_t>::max());
// Returns a number. Throws Error, naming the member `what`, if the value is not a number. The
// result is finite because parsing rejects numbers that overflow.
double real(const Json&, std::string_view what);
// Returns a hash. Throws Error, naming the member `what`, if the value is not a string of 32 hex
// digits.
Hash128 hash_of(const Json&, std::string_view what);

// Checked access to the members of an object. The functions throw Error if the member is missing or
// has the wrong type.
struct JsonFields {
  const Json& json;

  const Json& at(const char* key) const;
  const Json& array(const char* key) const;
  const Json& object(const char* key) const;
  std::string text(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t low = 0,
                       std::int64_t high = std::numeric_limits<std::int64_t>::max()) const {
    return trireme::integer(at(key), key, low, high);
  }
  double real(const char* key) const { return trireme::real(at(key), key); }
  Hash128 hash(const char* key) const { return hash_of(at(key), key); }
};

}  // namespace trireme
