#pragma once
// adapter_config.json of peft: the settings of its adapters, and which modules it puts them beside.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/model/adapter.hpp"
#include "lib/tokenizer/regex.hpp"

namespace trireme {

// Names of modules as peft matches them: one pattern of whole names, or a list of names and of what
// names end with behind a dot.
class ModuleNames {
 public:
  // `key` is for messages. Error for what is neither, and for a pattern that cannot be read.
  ModuleNames(const Json&, std::string_view key);
  bool match(const std::string& module) const;
  bool is_pattern() const { return pattern_.has_value(); }

 private:
  std::vector<std::string> list_;
  std::optional<Regex> pattern_;
};

// target_modules, with what else of the file restricts them.
class AdapterTargets {
 public:
  // Error, which names the key, for what is missing or cannot be read.
  explicit AdapterTargets(const Json& adapter_config);
  // Does peft put a pair beside this module, which is "model.layers.0.self_attn.q_proj" or another
  // of the model's linear maps and embeddings?
  bool name(const std::string& module) const;
  // What the file says, for messages.
  const std::string& text() const { return text_; }

 private:
  bool in_layers(const std::string& module) const;

  std::string text_;
  bool all_linear_ = false;
  std::optional<ModuleNames> named_, excluded_;
  std::vector<std::int64_t> layers_;  // empty: all
  std::vector<Regex> layer_patterns_;
};

// Without patterns. Error, which names the key, for what is not known or not possible here.
AdapterConfig adapter_config_of(const Json&);

}  // namespace trireme
