#pragma once
// JSON of files: the one place where it is parsed, and where what it says is held to the kind and
// range that are asked for. What is wrong is an Error that names the member and, where the text is
// at fault, its place; the reader of a file puts the file's name before it.
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"

namespace trireme {

using Json = nlohmann::json;

// What a text says, in time linear in its length. Error for wrong syntax, a name given twice in one
// object, numbers that overflow, and nesting of more than 64 levels, which no file here has and
// which would overflow the stack of what walks it.
Json parse_json(std::string_view text);
// The same of a text that has to be an object; the Error begins with "`where` is damaged: ".
Json parse_object(std::string_view text, std::string_view where);
// The value of one member of such an object, null where there is none. The others are skipped: a
// tokenizer's vocabulary takes many times its text's memory.
Json parse_member(std::string_view text, std::string_view member, std::string_view where);

// As Hugging Face's programs write it: two spaces a level, a line end at the end.
std::string to_lines(const Json&);

// A value as a message may show it: in ASCII, its beginning if it is long.
std::string shown(const Json&);

// `what` names the member. An integer within [low, high]: no float, even without a fraction.
std::int64_t integer(const Json&, std::string_view what, std::int64_t low = 0,
                     std::int64_t high = std::numeric_limits<std::int64_t>::max());
// A number of any kind, which is finite as everything that parses.
double real(const Json&, std::string_view what);
Hash128 hash_of(const Json&, std::string_view what);

// The members of an object; one that is missing is an Error.
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
