#include "lib/interchange/adapter_config.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/interchange/config_fields.hpp"

namespace trireme {

namespace {

// Keys that are read, and keys that do not affect the numbers.
constexpr std::string_view read_or_idle[] = {"alpha_pattern",
                                             "auto_mapping",
                                             "base_model_name_or_path",
                                             "bias",
                                             "ensure_weight_tying",
                                             "exclude_modules",
                                             "fan_in_fan_out",
                                             "inference_mode",
                                             "init_lora_weights",
                                             "layers_pattern",
                                             "layers_to_transform",
                                             "lora_alpha",
                                             "lora_dropout",
                                             "megatron_config",
                                             "megatron_core",
                                             "modules_to_save",
                                             "peft_type",
                                             "peft_version",
                                             "qalora_group_size",
                                             "r",
                                             "rank_pattern",
                                             "revision",
                                             "runtime_config",
                                             "target_modules",
                                             "task_type",
                                             "use_dora",
                                             "use_rslora"};

bool says_nothing(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         ((value.is_object() || value.is_array()) && value.empty()) || value == "";
}

// Returns the member. Returns null if it is missing or its value has no effect.
Json said(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || says_nothing(*found) ? Json() : *found;
}

std::vector<Json> listed(const Json& value) {
  if (value.is_null()) return {};
  return value.is_array() ? std::vector<Json>(value.begin(), value.end()) : std::vector{value};
}

// Returns the members of an object in the order of their names.
std::vector<std::pair<std::string, Json>> members(const Json& json, const char* key) {
  const auto value = said(json, key);
  require(value.is_null() || value.is_object(), "'{}' = {} is not an object", key, shown(value));
  std::vector<std::pair<std::string, Json>> all;
  for (const auto& [name, member] : value.items()) all.emplace_back(name, member);
  return all;
}

Regex pattern_in(const std::string& text, std::string_view key) {
  try {
    return Regex::of_whole_texts(text);
  } catch (const Error& e) {
    fail("'{}': {}. Write a list of names instead", key, e.what());
  }
}

}  // namespace

ModuleNames::ModuleNames(const Json& value, std::string_view key) {
  if (value.is_string()) {
    pattern_ = pattern_in(value.get<std::string>(), key);
    return;
  }
  require(value.is_array() && std::ranges::all_of(value, [](auto& v) { return v.is_string(); }),
          "'{}' = {} is neither a string nor a list of strings", key, shown(value));
  for (const auto& name : value) list_.push_back(name.get<std::string>());
}

bool ModuleNames::match(const std::string& module) const {
  if (pattern_) return pattern_->matches(module);
  return std::ranges::any_of(
      list_, [&](auto& name) { return module == name || module.ends_with("." + name); });
}

AdapterTargets::AdapterTargets(const Json& json) {
  constexpr const char* targets = "target_modules";
  const auto modules = said(json, targets);
  require(!modules.is_null(), "'{}' is missing", targets);
  std::vector<std::string> texts;
  for (const auto* key : {targets, "exclude_modules", "layers_to_transform", "layers_pattern"})
    if (const auto value = said(json, key); !value.is_null())
      texts.push_back(fmt::format("'{}' = {}", key, shown(value)));
  text_ = fmt::format("{}", fmt::join(texts, ", "));

  if (modules == "all-linear")
    all_linear_ = true;
  else
    named_.emplace(modules, targets);
  if (const auto value = said(json, "exclude_modules"); !value.is_null())
    excluded_.emplace(value, "exclude_modules");
  for (const auto& [name, rank] : members(json, "rank_pattern"))
    ranks_.emplace_back(pattern_in("(?:.*\\.)?(?:" + name + ")", "rank_pattern"),
                        integer(rank, "rank_pattern", 1, 65536));
  for (const auto& [name, alpha] : members(json, "alpha_pattern")) {
    require(alpha.is_number() && alpha > 0 && alpha <= 1e9,
            "'alpha_pattern': {} for {} must be a number above 0 and at most 1e9", shown(alpha),
            escaped(name));
    alphas_.emplace_back(pattern_in("(?:.*\\.)?(?:" + name + ")", "alpha_pattern"), alpha);
  }
  for (const auto& module : listed(said(json, "modules_to_save"))) {
    require(module.is_string(), "'modules_to_save' = {} is not a string", shown(module));
    whole_.push_back(module.get<std::string>());
  }
  for (const auto& layer : listed(said(json, "layers_to_transform")))
    layers_.push_back(integer(layer, "layers_to_transform"));
  for (const auto& name : listed(said(json, "layers_pattern"))) {
    require(name.is_string(), "'layers_pattern' = {} is not a string", shown(name));
    layer_patterns_.push_back(
        pattern_in(".*\\." + name.get<std::string>() + "\\.\\d+\\..*", "layers_pattern"));
  }
}

// Returns the block's number in the name of a module. Names of modules that can have adapters
// contain at most one number.
static std::optional<std::int64_t> layer_of(const std::string& module) {
  for (const auto part : split(module, '.'))
    if (const auto layer = number_in<std::int64_t>(part)) return layer;
  return {};
}

bool AdapterTargets::in_layers(const std::string& module) const {
  if (layers_.empty()) return true;
  const auto layer = layer_of(module);
  return layer && std::ranges::find(layers_, *layer) != layers_.end() &&
         (layer_patterns_.empty() ||
          std::ranges::any_of(layer_patterns_, [&](auto& p) { return p.matches(module); }));
}

// Returns the value whose pattern matches the module. In peft, the first one in the file applies.
// Json objects do not keep this order, so all of them must be equal.
template <class T>
static std::optional<T> value_for(const std::string& module,
                                  const std::vector<std::pair<Regex, T>>& values,
                                  std::string_view key) {
  std::optional<T> found;
  for (const auto& [pattern, value] : values) {
    if (!pattern.matches(module)) continue;
    require(!found || *found == value,
            "'{}' has several entries for {}. Keep one of them, with the full name of the module",
            key, module);
    found = value;
  }
  return found;
}

AdapterTargets::RankAndAlpha AdapterTargets::rank_and_alpha(const std::string& module) const {
  return {value_for(module, ranks_, "rank_pattern"), value_for(module, alphas_, "alpha_pattern")};
}

bool AdapterTargets::trains_whole(const std::string& module) const {
  return std::ranges::any_of(whole_, [&](const std::string& end) { return module.ends_with(end); });
}

// In peft, all-linear leaves out the head, and layers_to_transform restricts only lists.
bool AdapterTargets::name(const std::string& module) const {
  if (excluded_ && excluded_->match(module)) return false;
  if (all_linear_) return layer_of(module).has_value();
  return named_->match(module) && (named_->is_pattern() || in_layers(module));
}

AdapterConfig adapter_config_of(const Json& json) {
  const ConfigFields fields(json);
  fields.refuse_if(fields.text("peft_type", "") != "LORA", "peft_type",
                   "only \"LORA\" can be imported");
  fields.refuse_if(fields.text("bias", "none") != "none", "bias", "only \"none\" is supported");
  for (const auto& [key, value] : json.items())
    require(std::ranges::find(read_or_idle, key) != std::end(read_or_idle) || says_nothing(value),
            "'{}' = {} is not supported, and ignoring it might change the adapter's results. {}",
            escaped(key), shown(value), merge_advice);
  // All other initializations change the weights of the base model when adapters are loaded.
  const auto begin = json.value("init_lora_weights", Json(true));
  fields.refuse_if(!begin.is_boolean() && begin != "gaussian" && !begin.is_null(),
                   "init_lora_weights",
                   "an initialization that changes the base model's weights is not supported");
  AdapterConfig a;
  a.rank = fields.integer("r");
  fields.refuse_if(a.rank > 65536, "r", "the rank must be at most 65536");
  a.alpha = fields.real("lora_alpha");
  fields.refuse_if(!(a.alpha > 0 && a.alpha <= 1e9), "lora_alpha",
                   "it must be above 0 and at most 1e9");
  a.dropout = fields.real("lora_dropout", 0);
  const auto dropout = static_cast<float>(a.dropout);
  fields.refuse_if(!(dropout >= 0 && dropout < 1), "lora_dropout",
                   "it must be at least 0 and below 1");
  a.rank_stabilized = fields.flag("use_rslora", false);
  a.method = fields.flag("use_dora", false) ? AdapterMethod::dora : AdapterMethod::lora;
  return a;
}

}  // namespace trireme
