#pragma once
// Strict reading of JSON: a field that is missing, ill-typed or out of range is an Error that names
// it.
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"

namespace trireme {

using Json = nlohmann::json;

struct JsonFields {
  const Json& json;

  const Json& at(const char* key) const {
    require(json.is_object() && json.contains(key), "'{}' is missing", key);
    return json[key];
  }
  const Json& array(const char* key) const {
    const auto& v = at(key);
    require(v.is_array(), "'{}' is not an array", key);
    return v;
  }
  const Json& object(const char* key) const {
    const auto& v = at(key);
    require(v.is_object(), "'{}' is not an object", key);
    return v;
  }
  std::string text(const char* key) const {
    const auto& v = at(key);
    require(v.is_string(), "'{}' is not a string", key);
    return v.get<std::string>();
  }
  std::int64_t integer(const char* key, std::int64_t low,
                       std::int64_t high = std::numeric_limits<std::int64_t>::max()) const {
    return integer_of(at(key), key, low, high);
  }
  Hash128 hash(const char* key) const { return hash_of(at(key), key); }

  static std::int64_t integer_of(const Json& v, const char* key, std::int64_t low = 0,
                                 std::int64_t high = std::numeric_limits<std::int64_t>::max()) {
    require(v.is_number_integer() &&
                (!v.is_number_unsigned() ||
                 v.get<std::uint64_t>() <=
                     static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())),
            "'{}' is not an integer", key);
    const auto n = v.get<std::int64_t>();
    require(low <= n && n <= high, "'{}' is out of range: {}", key, n);
    return n;
  }
  static Hash128 hash_of(const Json& v, const char* key) {
    const auto h = v.is_string() ? parse_hash(v.get_ref<const std::string&>()) : std::nullopt;
    require(h.has_value(), "'{}' is not a hash of 32 hex digits", key);
    return *h;
  }
};

}  // namespace trireme
