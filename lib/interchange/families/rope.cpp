#include "lib/interchange/families/rope.hpp"

#include <cmath>
#include <limits>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"

namespace trireme {

namespace {

constexpr const char *old_key = "rope_scaling", *new_key = "rope_parameters",
                     *full_key = "full_attention", *sliding_key = "sliding_attention",
                     *fraction_key = "partial_rotary_factor", *theta_key = "rope_theta";
constexpr const char* whole_heads =
    "only rotary positions that rotate all channels of a head are supported for this type of model";

// Returns the magnitude of YaRN by DeepSeek's formula, linear in the logarithm of the factor.
double magnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

void read_yarn(const ConfigFields& f, const ConfigFields& rope, ModelConfig& c) {
  c.rope_original_context =
      rope.integer("original_max_position_embeddings", f.integer("max_position_embeddings", 0));
  c.rope_beta_fast = rope.positive("beta_fast", 32);
  c.rope_beta_slow = rope.positive("beta_slow", 1);
  c.rope_truncate = rope.flag("truncate", true);
  const double scale = rope.real("mscale", 0), of_all = rope.real("mscale_all_dim", 0);
  c.rope_attention_factor = rope.positive(
      "attention_factor", scale != 0 && of_all != 0
                              ? magnitude(c.rope_factor, scale) / magnitude(c.rope_factor, of_all)
                              : 0);
}

RopeScaling scaling_named(const std::string& type) {
  if (type == "default") return RopeScaling::none;
  if (const auto known = value_named<RopeScaling>(type); known) return *known;
  fail(
      "'rope_type' = \"{}\" is not supported. The supported types are \"default\", \"linear\", "
      "\"llama3\" and \"yarn\"",
      escaped(type));
}

void read_scaling(const ConfigFields& f, const ConfigFields& rope, ModelConfig& c) {
  const auto type = rope.text("rope_type", rope.text("type", "default").c_str());
  c.rope_scaling = scaling_named(type);
  if (c.rope_scaling != RopeScaling::none) c.rope_factor = rope.real("factor");
  if (c.rope_scaling == RopeScaling::llama3) {
    c.rope_low_freq_factor = rope.real("low_freq_factor");
    c.rope_high_freq_factor = rope.real("high_freq_factor");
    c.rope_original_context = rope.integer("original_max_position_embeddings");
  } else if (c.rope_scaling == RopeScaling::yarn) {
    read_yarn(f, rope, c);
  } else {
    rope.unused("original_max_position_embeddings");
  }
  for (const auto& [name, value] : rope.json().items())
    require(!value.is_object(),
            "its rotary parameters differ between layers ('{}'), which is not supported",
            escaped(name));
}

std::int64_t head_dim_of(const ModelConfig& c) {
  return c.head_dim > 0 ? c.head_dim : c.width / c.heads;
}

// The classes of transformers round the number of channels down.
std::int64_t rotary_dim(const ModelConfig& c, double fraction) {
  return static_cast<std::int64_t>(static_cast<double>(head_dim_of(c)) * fraction);
}

void read_fraction(const ConfigFields& f, const ConfigFields& rope, const RopeRule& rule,
                   ModelConfig& c) {
  if (rule.rotary_fraction == 0) {
    for (const auto* fields : {&f, &rope})
      fields->refuse_if(fields->real(fraction_key, 1) != 1, fraction_key, whole_heads);
    return;
  }
  const double outside = f.real(fraction_key, rule.rotary_fraction);
  const double fraction = rope.real(fraction_key, outside);
  f.refuse_if(f.find(fraction_key) && fraction != outside, fraction_key,
              "the rotary settings contain another value. Versions 4 and 5 of transformers use "
              "different ones");
  rope.refuse_if(!(0 < fraction && fraction <= 1), fraction_key,
                 "it must be a number above 0 and at most 1");
  c.rotary_dim = rotary_dim(c, fraction);
  require(c.rotary_dim > 0 && c.rotary_dim % 2 == 0,
          "'{}' = {} rotates {} of {} channels of a head. The number must be even and above 0",
          fraction_key, fraction, c.rotary_dim, head_dim_of(c));
  if (c.rotary_dim == head_dim_of(c)) c.rotary_dim = 0;
}

// Reads settings that apply to all blocks or to blocks without a window. `given` is the object with
// the settings, whose member in the file is `key`, or nullptr.
void read_rope(const ConfigFields& f, const Json* given, const char* key, const RopeRule& rule,
               ModelConfig& c) {
  static const Json nothing = Json::object();
  const ConfigFields rope(given ? *given : nothing, key);
  c.rope_theta = rope.real(theta_key, f.real(theta_key, rule.theta));
  read_fraction(f, rope, rule, c);
  read_scaling(f, rope, c);
  rope.refuse_rest(name_of(c.rope_scaling));
}

const Json* old_scaling(const ConfigFields& f) {
  const auto* scaling = f.find(old_key);
  return scaling && !(scaling->is_object() && scaling->empty()) ? scaling : nullptr;
}

// Returns the smallest fraction that selects the model's channels.
double fraction_of(const ModelConfig& c) {
  if (c.rotary_dim == 0) return 1;
  double fraction = static_cast<double>(c.rotary_dim) / static_cast<double>(head_dim_of(c));
  if (rotary_dim(c, fraction) < c.rotary_dim)
    fraction = std::nextafter(fraction, std::numeric_limits<double>::max());
  return fraction;
}

// Returns the settings in the form of rope_scaling, which is null without scaling.
Json scaling_of(const ModelConfig& c) {
  switch (c.rope_scaling) {
    case RopeScaling::none:
      return {};
    case RopeScaling::linear:
      return {{"rope_type", "linear"}, {"factor", c.rope_factor}};
    case RopeScaling::llama3:
      return {{"rope_type", "llama3"},
              {"factor", c.rope_factor},
              {"low_freq_factor", c.rope_low_freq_factor},
              {"high_freq_factor", c.rope_high_freq_factor},
              {"original_max_position_embeddings", c.rope_original_context}};
    case RopeScaling::yarn: {
      Json yarn{{"rope_type", "yarn"},
                {"factor", c.rope_factor},
                {"beta_fast", c.rope_beta_fast},
                {"beta_slow", c.rope_beta_slow},
                {"original_max_position_embeddings", c.rope_original_context}};
      if (!c.rope_truncate) yarn["truncate"] = false;  // others may not know it
      if (c.rope_attention_factor > 0) yarn["attention_factor"] = c.rope_attention_factor;
      return yarn;
    }
  }
  return {};
}

// Reads the object of version 5 with settings for each type of layer. Sets the base of layers with
// a window, which is `window_theta` if the object does not contain it. Returns the object for the
// other layers, or nullptr.
const Json* read_types(const ConfigFields& f, const Json& all, double window_theta,
                       ModelConfig& c) {
  const ConfigFields by_type(all, new_key);
  f.refuse_if(!all.contains(full_key) && !all.contains(sliding_key), new_key,
              fmt::format("models of this type need '{}' or '{}' in it", full_key, sliding_key));
  c.window_rope_theta = window_theta;
  if (const auto* const sliding = by_type.find(sliding_key)) {
    const ConfigFields of_window(*sliding, fmt::format("{}.{}", new_key, sliding_key));
    c.window_rope_theta = of_window.positive(theta_key, window_theta);
    of_window.refuse_if(of_window.text("rope_type", "default") != "default", "rope_type",
                        "scaled rotary positions in layers with a window are not supported");
    of_window.refuse_if(of_window.real(fraction_key, 1) != 1, fraction_key, whole_heads);
    of_window.refuse_rest("default");
  }
  const auto* const full = by_type.find(full_key);
  f.refuse_if(full && !full->is_object(), new_key, "its members must be JSON objects");
  by_type.refuse_rest(new_key);
  return full;
}

// Reads the settings of layers without a window. The class reads the kind of scaling only as
// rope_type.
void read_full(const ConfigFields& f, const Json& given, const char* key, const RopeRule& rule,
               ModelConfig& c) {
  const ConfigFields fields(given, key);
  fields.refuse_if(
      given.contains("type") && !given.contains("rope_type") && given.at("type") != "default",
      "type", "the class of transformers for this type of model reads only 'rope_type'");
  read_rope(f, &given, key, rule, c);
  if (c.window == 0) c.window_rope_theta = 0;
}

}  // namespace

void rope_config(ConfigArchive& a, ModelConfig& c, const RopeRule& rule) {
  if (a.reads()) {
    const auto& f = a.fields();
    const auto *const scaling = old_scaling(f), *const parameters = f.find(new_key);
    require(
        !rule.scaling || scaling || parameters || !f.names(old_key),
        "versions 4 and 5 of transformers understand an empty '{}' differently for this type of "
        "model. Write {{\"rope_type\": \"default\"}} for no scaling, or remove '{}'",
        old_key, old_key);
    read_rope(f,
              scaling      ? scaling
              : parameters ? parameters
                           : rule.scaling,
              scaling ? old_key : new_key, rule, c);
    return;
  }
  a.note(theta_key, c.rope_theta);
  const auto scaling = scaling_of(c);
  a.note(old_key, scaling.is_null() && rule.scaling ? Json{{"rope_type", "default"}} : scaling);
  if (rule.rotary_fraction > 0) a.note(fraction_key, fraction_of(c));
}

void rope_by_layer_config(ConfigArchive& a, ModelConfig& c, const RopeRule& rule,
                          const char* window_key, double window_theta) {
  if (!a.reads()) {
    rope_config(a, c, rule);
    a.note(window_key, c.window_rope_theta > 0 ? c.window_rope_theta : c.rope_theta);
    return;
  }
  const auto& f = a.fields();
  const auto *const scaling = old_scaling(f), *const all = f.find(new_key);
  f.refuse_if(all && scaling, old_key,
              fmt::format("'{}' already specifies the scaling for each type of layer", new_key));
  c.window_rope_theta = f.positive(window_key, window_theta);
  const auto* const full = all ? read_types(f, *all, c.window_rope_theta, c) : nullptr;
  static const Json nothing = Json::object();
  read_full(f, scaling ? *scaling : full ? *full : nothing, scaling ? old_key : new_key, rule, c);
}

void rope_by_type_config(ConfigArchive& a, ModelConfig& c, double theta) {
  const RopeRule rule{.theta = theta};
  if (!a.reads()) {
    rope_config(a, c, rule);
    auto full = scaling_of(c);
    if (full.is_null()) full = {{"rope_type", "default"}};
    full[theta_key] = c.rope_theta;
    const double in_window = c.window_rope_theta > 0 ? c.window_rope_theta : c.rope_theta;
    a.note(new_key,
           {{full_key, full}, {sliding_key, {{"rope_type", "default"}, {theta_key, in_window}}}});
    return;
  }
  const auto& f = a.fields();
  const auto *const scaling = old_scaling(f), *const all = f.find(new_key);
  if (!all) {
    c.window_rope_theta = f.positive(theta_key, 0);
    f.refuse_if(c.window > 0 && c.window_rope_theta != theta, theta_key,
                fmt::format("versions 4 and 5 of transformers use different bases. Write '{}' with "
                            "the base of each type of layer",
                            new_key));
  }
  // Version 5 adds the old object to the new one, and does not use rope_theta in windows.
  const auto* const full = all ? read_types(f, *all, theta, c) : nullptr;
  f.refuse_if(scaling && !scaling->is_object(), old_key, "it must be a JSON object");
  Json both = full ? *full : Json::object();
  if (scaling) both.update(*scaling);
  read_full(f, both, scaling ? old_key : new_key, rule, c);
}

}  // namespace trireme
