#pragma once
// The values of model.preset: a known model shape, or the shape of a checkpoint.
#include <string_view>

#include "lib/model/config.hpp"

namespace trireme {

// Prefix of a preset that refers to a checkpoint.
inline constexpr std::string_view checkpoint_preset = "from:";

// Returns the shape of a preset: "llama-7B", "from:DIR" (a checkpoint or run directory), or "" for
// the default shape. Keys that are not part of a shape (such as dropout, recompute and init_from)
// have their defaults. A shape from a checkpoint has no preset name. A saved deck therefore
// contains all values of the shape and does not depend on the checkpoint. Throws Error if there is
// no such preset.
ModelConfig preset_named(std::string_view);

}  // namespace trireme
