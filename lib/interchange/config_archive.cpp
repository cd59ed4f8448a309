#include "lib/interchange/config_archive.hpp"

#include <fmt/format.h>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"

namespace trireme {

ConfigArchive::ConfigArchive(const ConfigFields& fields, std::optional<std::int64_t> context)
    : from_(&fields), context_(context) {}

const ConfigFields& ConfigArchive::fields() const {
  expect(reads(), "a file is read");
  return *from_;
}

void ConfigArchive::integer(const char* key, std::int64_t& x) {
  if (reads())
    x = from_->integer(key);
  else
    (*to_)[key] = x;
}

void ConfigArchive::integer(const char* key, std::int64_t& x, std::int64_t absent,
                            std::int64_t null) {
  if (reads())
    x = from_->integer(key, from_->names(key) ? null : absent);
  else
    (*to_)[key] = x;
}

void ConfigArchive::integer(const char* key, std::int64_t& x, std::int64_t otherwise) {
  integer(key, x, otherwise, otherwise);
}

void ConfigArchive::real(const char* key, double& x, double otherwise) {
  if (reads())
    x = from_->real(key, otherwise);
  else
    (*to_)[key] = x;
}

void ConfigArchive::flag(const char* key, bool& x, bool otherwise) {
  if (reads())
    x = from_->flag(key, otherwise);
  else
    (*to_)[key] = x;
}

void ConfigArchive::factor(const char* key, double& x) {
  if (reads())
    x = from_->positive(key, 1);
  else
    (*to_)[key] = x;
}

void ConfigArchive::positions(const char* key, ModelConfig& c, std::int64_t otherwise) {
  integer(key, c.max_context, otherwise);
}

void ConfigArchive::constant(const char* key, const Json& value, std::string_view why) {
  require_equal(key, value, why);
  note(key, value);
}

void ConfigArchive::require_equal(const char* key, const Json& value, std::string_view why) {
  if (!reads()) return;
  if (value.is_boolean()) {
    from_->refuse_if(from_->flag(key, value.get<bool>()) != value.get<bool>(), key, why);
    return;
  }
  const auto* const there = from_->find(key);
  from_->refuse_if(there && *there != value, key, why);
}

void ConfigArchive::note(const char* key, const Json& value) {
  if (!reads()) (*to_)[key] = value;
}

}  // namespace trireme
