#pragma once
// The members of a config.json: what import reads of them, what is known to change no number, and
// the rest, which is refused by name.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "lib/base/json.hpp"

namespace trireme {

// Fields of an object. One that is null counts as left out. Each that is asked for is remembered as
// used.
class ConfigFields {
 public:
  // `within` is put before names in messages: "rope_scaling.".
  explicit ConfigFields(const Json& json, std::string within = "");

  const Json& json() const { return json_; }
  bool names(const char* key) const { return json_.contains(key); }
  const Json* find(const char* key) const;
  // Has no effect together with what else the file says.
  void unused(const char* key) const { used_.insert(key); }

  // Error for one of another kind; without `otherwise`, where it is missing, too.
  std::int64_t integer(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t otherwise) const;
  double real(const char* key) const;
  double real(const char* key, double otherwise) const;
  // One above 0: what 0 means here, as a value that follows from others, is what leaving it out
  // says.
  double positive(const char* key, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const char* otherwise) const;

  // Error with the member's value if `wrong`.
  void refuse_if(bool wrong, const char* key, std::string_view why) const;
  // Error naming all that was neither used nor is known to be without effect on what a model of
  // this type computes.
  void refuse_rest(std::string_view model_type) const;

 private:
  std::string name_of(std::string_view key) const;

  const Json& json_;
  std::string within_;
  mutable std::set<std::string, std::less<>> used_;
};

// Of what is made of a number of layers: a deck refuses more, and nothing is built of a number
// without bound.
constexpr std::int64_t countable(std::int64_t layers) {
  return std::min<std::int64_t>(layers, 10000);
}

}  // namespace trireme
