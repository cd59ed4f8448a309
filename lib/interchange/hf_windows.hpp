#pragma once
// Attention windows in config.json: which layers of a file have a window, and what an export
// writes.
#include <cstdint>
#include <string>

#include "lib/base/json.hpp"
#include "lib/interchange/config_fields.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Which layers of a model family have an attention window.
enum class Windows : std::uint8_t {
  // No layer.
  none,
  // Every layer.
  all,
  // Every layer, if use_sliding_window is true.
  if_used,
  // If use_sliding_window is true, the layers given by layer_types, otherwise those from
  // max_window_layers on.
  by_layer,
  // If use_sliding_window is true, layers that versions 4 and 5 of transformers choose differently.
  by_version,
  // Without layer_types, all layers except every second.
  but_second,
  // Without layer_types, all layers except every n-th, where n is sliding_window_pattern or 6.
  but_sixth
};

// Reads the window into `c`, which must already have its number of layers. `otherwise` is the
// family's window size if the file has none. 0 means no window.
void read_window(const ConfigFields&, Windows, std::int64_t otherwise, ModelConfig& c);

// Adds the window to a config.json. The model's windows must be in the form of with_plain_windows,
// and the architecture must support them.
void add_window(Json&, const ModelConfig&, const std::string& architecture);

// Returns the model with window and window_layers normalized as by canonical().
ModelConfig with_plain_windows(ModelConfig);

}  // namespace trireme
