#pragma once
// Functions that read the JSON objects of a tokenizer.json. A value of the wrong type throws an
// exception of nlohmann::json, which TextPipeline converts into Error.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/json.hpp"

namespace trireme {

// Returns the member `key` of an object. Returns null if the member is absent or if `object` is not
// an object.
inline const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

// Returns the text of the member `key`.
inline std::string text_in(const nlohmann::json& object, const char* key) {
  return object.at(key).get<std::string>();
}

// Returns a token id. Throws Error, with `what` and the value, if the value is not a valid id.
inline std::int32_t id_in(const Json& value, std::string_view what) {
  constexpr std::int64_t most = (1 << 24) - 1;  // keeps tables indexed by id small
  return static_cast<std::int32_t>(integer(value, what, 0, most));
}

// Returns the flag of the member `key`, or `otherwise` if the member is absent or null.
inline bool flag_in(const nlohmann::json& object, const char* key, bool otherwise = false) {
  const auto& value = member(object, key);
  return value.is_null() ? otherwise : value.get<bool>();
}

// Returns the "type" of a component, or "without a type", for use in messages.
inline std::string type_of(const nlohmann::json& component) {
  const auto& type = member(component, "type");
  return type.is_string() ? type.get<std::string>() : "without a type";
}

}  // namespace trireme
