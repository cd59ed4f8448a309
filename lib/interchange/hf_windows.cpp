#include "lib/interchange/hf_windows.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"

namespace trireme {

namespace {

std::vector<std::int64_t> sliding_layers(const Json& types) {
  require(types.is_array(), "'layer_types' is not an array");
  std::vector<std::int64_t> sliding;
  std::int64_t layer = 0;
  for (const auto& type : types) {
    require(type == "full_attention" || type == "sliding_attention",
            "'layer_types' contains {}, a type of attention that is not supported", shown(type));
    if (type == "sliding_attention") sliding.push_back(layer);
    ++layer;
  }
  return sliding;
}

// Returns the layers from number `first` on. Families give them windows if the file does not list
// the layers with windows.
std::vector<std::int64_t> layers_from(std::int64_t first, std::int64_t layers) {
  std::vector<std::int64_t> all;
  for (auto l = first; l < countable(layers); ++l) all.push_back(l);
  return all;
}

std::vector<std::int64_t> layers_but_each(std::int64_t n, std::int64_t layers) {
  std::vector<std::int64_t> all;
  for (std::int64_t l = 0; l < countable(layers); ++l)
    if ((l + 1) % n != 0) all.push_back(l);
  return all;
}

// Returns the number of layers, counted from the first, that have no window.
std::int64_t full_layers(const ConfigFields& f) {
  const auto* const n = f.find("max_window_layers");
  return n ? integer(*n, "max_window_layers") : 28;
}

}  // namespace

void read_window(const ConfigFields& f, Windows windows, std::int64_t otherwise, ModelConfig& c) {
  const auto* types = f.find("layer_types");
  const auto listed = types ? sliding_layers(*types) : std::vector<std::int64_t>{};
  const bool named = f.names("use_sliding_window"), used = f.flag("use_sliding_window", false);
  const bool patterned = windows == Windows::but_second || windows == Windows::but_sixth;
  const bool flagged = windows != Windows::none && windows != Windows::all && !patterned;
  if (types || flagged || (named && !used)) {
    f.unused("max_window_layers");
    f.unused("sliding_window");
  }
  const auto window = [&] {
    return f.names("sliding_window") ? f.integer("sliding_window", 0) : otherwise;
  };
  if (windows == Windows::none || (flagged && !used)) {
    require(listed.empty(), "'layer_types' contains \"sliding_attention\", but {}",
            flagged ? "'use_sliding_window' is not true" : "models of this type have no window");
    return;
  }
  if (windows == Windows::by_layer || patterned) {
    const auto each =
        windows == Windows::but_sixth ? f.integer("sliding_window_pattern", 6) : std::int64_t{2};
    c.window_layers = types       ? listed
                      : patterned ? layers_but_each(each, c.layers)
                                  : layers_from(full_layers(f), c.layers);
    if (c.window_layers.empty()) {
      f.unused("sliding_window");
      return;
    }
    const auto types_given = types ? std::ssize(*types) : c.layers;
    require(types_given == c.layers, "'layer_types' lists {}, but 'num_hidden_layers' is {}",
            counted(types_given, "layer"), c.layers);
    if (std::ssize(c.window_layers) == c.layers) c.window_layers.clear();
  }
  c.window = window();
  if (c.window == 0) c.window_layers.clear();
}

static Json types_of_layers(const ModelConfig& c) {
  auto types = Json::array();
  for (std::int64_t l = 0; l < c.layers; ++l)
    types.push_back(window_of(c, l) > 0 ? "sliding_attention" : "full_attention");
  return types;
}

// Writes the window. The types of layers say which layers have it. Versions of transformers before
// 4.53 read the number of layers without a window.
void add_window(Json& json, const ModelConfig& c, const std::string& architecture) {
  const Json window = c.window > 0 ? Json(c.window) : Json();
  if (architecture == "MistralForCausalLM" || architecture == "MixtralForCausalLM") {
    json["sliding_window"] = window;
    return;
  }
  if (architecture.starts_with("Gemma")) {
    // Gemma's class makes masks with a window even if no layer has one.
    json["sliding_window"] = c.window > 0 ? c.window : positions_of(c);
    json["layer_types"] = types_of_layers(c);
    return;
  }
  json["use_sliding_window"] = c.window > 0;
  if (c.window == 0) return;
  json["sliding_window"] = window;
  std::int64_t full = 0;
  while (window_of(c, full) == 0) ++full;
  json["max_window_layers"] = full;
  if (architecture == "Qwen2ForCausalLM" || architecture == "Qwen3ForCausalLM")
    json["layer_types"] = types_of_layers(c);
}

ModelConfig with_plain_windows(ModelConfig c) {
  auto plain = canonical(c);
  c.window = plain.window;
  c.window_layers = std::move(plain.window_layers);
  return c;
}

}  // namespace trireme
