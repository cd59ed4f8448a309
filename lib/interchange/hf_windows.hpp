#pragma once
// Attention windows in config.json: which layers of a model have a window, and the settings that an
// export writes.
#include <cstdint>
#include <string>

#include "lib/base/json.hpp"
#include "lib/interchange/config_fields.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Rule that determines which layers of a model family have an attention window.
enum class Windows : std::uint8_t {
  // No layer has a window.
  none,
  // Every layer has a window.
  all,
  // Every layer has a window if use_sliding_window is true.
  if_used,
  // If use_sliding_window is true, layer_types lists the layers. Without layer_types, they are the
  // layers from max_window_layers on.
  by_layer,
  // Rule for families whose layers with a window differ between versions 4 and 5 of transformers.
  // Applies if use_sliding_window is true.
  by_version,
  // layer_types lists the layers. Without layer_types, they are all layers except every second one.
  but_second,
  // layer_types lists the layers. Without layer_types, they are all layers except every n-th one,
  // where n is sliding_window_pattern or 6.
  but_sixth
};

// Reads the window into `c`, whose number of layers must already be set. If the file has no window
// size, `otherwise` is used. 0 means no window.
void read_window(const ConfigFields&, Windows, std::int64_t otherwise, ModelConfig& c);

// Adds the window to a config.json. The model's windows must be normalized (with_plain_windows),
// and the architecture must support them.
void add_window(Json&, const ModelConfig&, const std::string& architecture);

// Returns the model with normalized window and window_layers, as canonical() normalizes them.
ModelConfig with_plain_windows(ModelConfig);

}  // namespace trireme
