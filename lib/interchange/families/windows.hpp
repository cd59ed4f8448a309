#pragma once
// Attention windows in config.json.
#include <cstdint>
#include <vector>

#include "lib/interchange/config_archive.hpp"

namespace trireme {

// How the class of a family determines which blocks have a window.
struct WindowRule {
  // Size of the window if the file does not contain sliding_window. 0 means no window.
  std::int64_t otherwise = 0;
  // No block has a window unless use_sliding_window is true.
  bool switched = false;
  // If true, the window applies to the blocks in layer_types or, if the file does not contain it,
  // to those in `layers`. If false, it applies to all blocks.
  bool by_layer = false;
  std::vector<std::int64_t> layers = {};
};

// Reads or writes the attention window. The number of layers must already be set.
void window_config(ConfigArchive&, ModelConfig&, const WindowRule&);
// Requires a model without windows.
void no_window_config(ConfigArchive&, ModelConfig&);

// Returns all layers except every n-th one.
std::vector<std::int64_t> all_but_each(std::int64_t n, const ModelConfig&);
// Reads or writes max_window_layers: the number of layers, counted from the first, that have no
// window. Versions of transformers before 4.53 read only this number. Returns the other layers.
std::vector<std::int64_t> max_window_layers_config(ConfigArchive&, const ModelConfig&);

}  // namespace trireme
