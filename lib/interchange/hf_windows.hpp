#pragma once
// Windows of attention in config.json: which layers a file gives one, and what an export says.
#include <cstdint>
#include <string>

#include "lib/base/json.hpp"
#include "lib/interchange/config_fields.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Where attention has a window: nowhere; in every layer; where use_sliding_window is true, in every
// layer, in those that the types of layers or their number say, or in some that versions 4 and 5
// choose differently; without types in all layers but every second, or but each of a number that
// the file has, or the sixth.
enum class Windows : std::uint8_t {
  none,
  all,
  if_used,
  by_layer,
  by_version,
  but_second,
  but_sixth
};

// `otherwise`: a family's window where the file names none; 0: none. c has its layers.
void read_window(const ConfigFields&, Windows, std::int64_t otherwise, ModelConfig& c);

// Of a model whose windows are plain and an architecture that has them.
void add_window(Json&, const ModelConfig&, const std::string& architecture);

// With windows as canonical() has them.
ModelConfig with_plain_windows(ModelConfig);

}  // namespace trireme
