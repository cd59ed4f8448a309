#pragma once
// Reads adapter_config.json of the Python library peft: the settings of adapters (LoRA or
// DoRA), the modules that have adapters, and the modules that are trained as a whole.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/model/adapter.hpp"
#include "lib/tokenizer/regex.hpp"

namespace trireme {

// What to do with an adapter that cannot be imported.
inline constexpr const char* merge_advice =
    "Merge the adapter into the model with merge_and_unload() of PEFT, and import the merged model "
    "without --base";

// A set of module names, with peft's rules for matching. The set is either one pattern that matches
// whole names, or a list of names. A name in the list also matches modules that end with a dot and
// this name.
class ModuleNames {
 public:
  // Reads the JSON value of `key`. Throws Error, naming `key`, if the value is neither a text nor a
  // list of texts, or if the pattern is invalid.
  ModuleNames(const Json&, std::string_view key);
  // Returns true if `module` is in the set.
  bool match(const std::string& module) const;
  bool is_pattern() const { return pattern_.has_value(); }

 private:
  std::vector<std::string> list_;
  std::optional<Regex> pattern_;
};

// The modules that have an adapter: `target_modules`, restricted by other settings of the file.
class AdapterTargets {
 public:
  // Reads the settings. Throws Error, naming the key, if a setting is missing or invalid.
  explicit AdapterTargets(const Json& adapter_config);
  // Returns true if peft adds an adapter to this module, for example
  // "model.layers.0.self_attn.q_proj". `module` must be a linear map or embedding of the model.
  bool name(const std::string& module) const;
  // The rank and alpha of one module. A member is absent if no pattern matches the module.
  struct RankAndAlpha {
    std::optional<std::int64_t> rank{};
    std::optional<double> alpha{};
  };
  // Returns the values that `rank_pattern` and `alpha_pattern` contain for a module.
  RankAndAlpha rank_and_alpha(const std::string& module) const;
  // Returns true if peft trains this module as a whole and saves it (`modules_to_save`).
  bool trains_whole(const std::string& module) const;
  // Returns the settings as text, for messages.
  const std::string& text() const { return text_; }

 private:
  bool in_layers(const std::string& module) const;

  std::string text_;
  bool all_linear_ = false;
  std::optional<ModuleNames> named_, excluded_;
  std::vector<std::pair<Regex, std::int64_t>> ranks_;
  std::vector<std::pair<Regex, double>> alphas_;
  std::vector<std::string> whole_;  // ends of the names of modules that are trained as a whole
  // Indices of the layers with adapters. Empty if all layers have adapters.
  std::vector<std::int64_t> layers_;
  std::vector<Regex> layer_patterns_;
};

// Converts an adapter_config.json, except for its modules: `patterns` is empty in the result.
// Throws Error, naming the key, if a setting is unknown or not supported.
AdapterConfig adapter_config_of(const Json&);

}  // namespace trireme
