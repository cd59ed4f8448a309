#pragma once
// Reads or writes the members of a config.json. A model family names each member once, and the same
// code serves import and export.
#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/json.hpp"
#include "lib/interchange/config_fields.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// A config.json that is being read or written. When reading, each function sets its variable from
// the member `key`. When writing, the function sets the member from the variable. Reading throws
// Error if a member has the wrong type or value.
class ConfigArchive {
 public:
  // Reads `fields`. `context` is the number of tokens per sample that the user asked for, if any.
  // The fields must outlive this object.
  ConfigArchive(const ConfigFields& fields, std::optional<std::int64_t> context);
  // Writes to `json`.
  explicit ConfigArchive(Json& json) : to_(&json) {}

  bool reads() const { return from_ != nullptr; }
  // Returns the fields of the file. Only for reading.
  const ConfigFields& fields() const;
  // Returns the number of tokens per sample that the user asked for, if any.
  std::optional<std::int64_t> context() const { return context_; }

  // An integer of at least 1. If the file lacks the member, the variable becomes `absent`. If the
  // member is null, the variable becomes `null`. `otherwise` stands for both. Without defaults, the
  // member is required.
  void integer(const char* key, std::int64_t& x);
  void integer(const char* key, std::int64_t& x, std::int64_t absent, std::int64_t null);
  void integer(const char* key, std::int64_t& x, std::int64_t otherwise);
  void real(const char* key, double& x, double otherwise);
  void flag(const char* key, bool& x, bool otherwise);
  // A factor above 0. If the file lacks it, the variable becomes 1.
  void factor(const char* key, double& x);
  // ModelConfig::max_context.
  void positions(const char* key, ModelConfig&, std::int64_t otherwise);

  // A member with only one supported value. Reading refuses other values, and adds `why` to the
  // message. An absent member has the supported value.
  void constant(const char* key, const Json& value, std::string_view why);
  // Refuses other values like constant(), but does not write the member.
  void require_equal(const char* key, const Json& value, std::string_view why);
  // Writes a member that reading does not need.
  void note(const char* key, const Json& value);

 private:
  const ConfigFields* from_ = nullptr;
  Json* to_ = nullptr;
  std::optional<std::int64_t> context_;
};

}  // namespace trireme
