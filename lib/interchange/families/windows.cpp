#include "lib/interchange/families/windows.hpp"

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"

namespace trireme {

namespace {

using Layers = std::vector<std::int64_t>;

constexpr const char *types_key = "layer_types", *switch_key = "use_sliding_window",
                     *window_key = "sliding_window", *first_key = "max_window_layers";

Layers sliding_layers(const Json& types) {
  require(types.is_array(), "'{}' is not an array", types_key);
  Layers sliding;
  std::int64_t layer = 0;
  for (const auto& type : types) {
    require(type == "full_attention" || type == "sliding_attention",
            "'{}' contains {}, a type of attention that is not supported", types_key, shown(type));
    if (type == "sliding_attention") sliding.push_back(layer);
    ++layer;
  }
  return sliding;
}

// Marks fields as read that have no effect without a window.
void ignore_sizes(const ConfigFields& f) {
  f.unused(first_key);
  f.unused(window_key);
}

// Returns the layers with a window. Sets `whole` if all layers have it.
Layers layers_of(const ConfigFields& f, const WindowRule& rule, const ModelConfig& c, bool& whole) {
  const auto* types = f.find(types_key);
  auto layers = types ? sliding_layers(*types) : rule.layers;
  const auto listed = types ? std::ssize(*types) : c.layers;
  require(layers.empty() || listed == c.layers, "'{}' lists {}, but 'num_hidden_layers' is {}",
          types_key, counted(listed, "layer"), c.layers);
  whole = std::ssize(layers) == c.layers;
  return layers;
}

void read_window(const ConfigFields& f, const WindowRule& rule, ModelConfig& c) {
  const bool used = f.flag(switch_key, false);
  const auto* types = f.find(types_key);
  if (types || rule.switched || (f.names(switch_key) && !used)) ignore_sizes(f);
  if (rule.switched && !used) {
    require(!types || sliding_layers(*types).empty(),
            "'{}' contains \"sliding_attention\", but '{}' is not true", types_key, switch_key);
    return;
  }
  bool whole = true;
  if (rule.by_layer) c.window_layers = layers_of(f, rule, c, whole);
  if (!whole && c.window_layers.empty()) {
    f.unused(window_key);
    return;
  }
  if (whole) c.window_layers.clear();
  c.window = f.names(window_key) ? f.integer(window_key, 0) : rule.otherwise;
  if (c.window == 0) c.window_layers.clear();
}

void write_window(ConfigArchive& a, const WindowRule& rule, const ModelConfig& c) {
  if (rule.switched) a.note(switch_key, c.window > 0);
  if (rule.switched && c.window == 0) return;
  // A class that reads types of layers makes masks with a window even if no layer has one.
  const auto none = rule.by_layer ? Json(c.max_context) : Json();
  a.note(window_key, c.window > 0 ? Json(c.window) : none);
  if (!rule.by_layer) return;
  auto types = Json::array();
  for (std::int64_t l = 0; l < c.layers; ++l)
    types.push_back(window_of(c, l) > 0 ? "sliding_attention" : "full_attention");
  a.note(types_key, types);
}

}  // namespace

void window_config(ConfigArchive& a, ModelConfig& c, const WindowRule& rule) {
  if (a.reads())
    read_window(a.fields(), rule, c);
  else
    write_window(a, rule, c);
}

void no_window_config(ConfigArchive& a, ModelConfig&) {
  if (!a.reads()) return;
  const auto& f = a.fields();
  const auto* types = f.find(types_key);
  const bool off = f.names(switch_key) && !f.flag(switch_key, false);
  if (types || off) ignore_sizes(f);
  require(!types || sliding_layers(*types).empty(),
          "'{}' contains \"sliding_attention\", but models of this type have no window", types_key);
}

std::vector<std::int64_t> all_but_each(std::int64_t n, const ModelConfig& c) {
  Layers all;
  for (std::int64_t l = 0; l < countable(c.layers); ++l)
    if ((l + 1) % n != 0) all.push_back(l);
  return all;
}

std::vector<std::int64_t> max_window_layers_config(ConfigArchive& a, const ModelConfig& c) {
  std::int64_t first = 0;
  if (a.reads()) {
    const auto* const there = a.fields().find(first_key);
    first = there ? integer(*there, first_key) : 28;
  } else if (c.window > 0) {
    while (first < c.layers && window_of(c, first) == 0) ++first;
    a.note(first_key, first);
  }
  Layers rest;
  for (auto l = first; l < countable(c.layers); ++l) rest.push_back(l);
  return rest;
}

}  // namespace trireme
