#pragma once
// Reading the objects of a tokenizer.json. Values of a wrong type throw nlohmann's exceptions,
// which TextPipeline turns into an Error.
#include <string>

#include "lib/base/json.hpp"

namespace trireme {

// Null where the key is absent.
inline const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

inline std::string text_in(const nlohmann::json& object, const char* key) {
  return object.at(key).get<std::string>();
}

inline bool flag_in(const nlohmann::json& object, const char* key, bool otherwise = false) {
  const auto& value = member(object, key);
  return value.is_null() ? otherwise : value.get<bool>();
}

inline std::string type_of(const nlohmann::json& component) {
  const auto& type = member(component, "type");
  return type.is_string() ? type.get<std::string>() : "without a type";
}

}  // namespace trireme
