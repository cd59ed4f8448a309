#pragma once
// Reads the members of a config.json. Each member is used by the import, is known to have no effect
// on the model's results, or is rejected by name.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "lib/base/json.hpp"

namespace trireme {

// The fields of a JSON object. A null field counts as absent. The object records which fields were
// read, for refuse_rest().
class ConfigFields {
 public:
  // `within` is the name of the object in messages, for example "rope_scaling". The JSON must
  // outlive this object. Throws Error if `json` is not an object.
  explicit ConfigFields(const Json& json, std::string within = "");

  const Json& json() const { return json_; }
  // Returns true if the object contains the field. The field may be null.
  bool names(const char* key) const { return json_.contains(key); }
  // Returns the field's value, or nullptr if the field is absent or null. Marks the field as read.
  const Json* find(const char* key) const;
  // Returns true if a function of this object read the field.
  bool was_read(const char* key) const { return used_.contains(key); }
  // Marks a field as read because other fields make it ineffective.
  void unused(const char* key) const { used_.insert(key); }

  // Returns the value of a field. Throws Error if the value has the wrong type, or if the field is
  // absent and no default `otherwise` is given. Integers must be at least 1. The functions below
  // follow the same rules.
  std::int64_t integer(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t otherwise) const;
  double real(const char* key) const;
  double real(const char* key, double otherwise) const;
  // Returns a value that must be greater than 0, or the default if the field is absent. In a deck,
  // 0 would mean that the value follows from other keys.
  double positive(const char* key, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const char* otherwise) const;

  // Throws Error if `wrong` is true. The message contains the field, its value and the reason
  // `why`.
  void refuse_if(bool wrong, const char* key, std::string_view why) const;
  // Throws Error, naming all fields that were not read. Ignores fields that are known to have no
  // effect on the results of a model of this type.
  void refuse_rest(std::string_view model_type) const;

 private:
  std::string name_of(std::string_view key) const;

  const Json& json_;
  std::string within_;
  mutable std::set<std::string, std::less<>> used_;
};

// Limits the number of layers in a file to 10000. The limit bounds the size of lists with one
// element per layer. A deck rejects larger numbers anyway.
constexpr std::int64_t countable(std::int64_t layers) {
  return std::min<std::int64_t>(layers, 10000);
}

}  // namespace trireme
