#pragma once
// What model.preset names: a known shape, or that of a checkpoint.
#include <string_view>

#include "lib/model/config.hpp"

namespace trireme {

inline constexpr std::string_view checkpoint_preset = "from:";

// Of "llama-7B", of "from:DIR" (a checkpoint or run directory) and of "", which is the default.
// What is no shape (dropout, recompute, init_from) stays at its default, and a checkpoint's shape
// has no name: a deck keeps its values, which outlive the checkpoint. Error when there is no such
// preset.
ModelConfig preset_named(std::string_view);

}  // namespace trireme
