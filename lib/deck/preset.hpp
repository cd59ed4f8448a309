#pragma once
// The values of model.preset: a known model shape, or the shape of a checkpoint.
#include <string_view>

#include "lib/deck/deck.hpp"

namespace trireme {

// Prefix of a preset that refers to a checkpoint.
inline constexpr std::string_view checkpoint_preset = "from:";

// Returns the model and the context of a preset: "llama-7B", "from:DIR" (a checkpoint or run
// directory), or "" for the default model. ModelConfig::max_context is 0 if it is to follow the
// deck's context. The adapters of a checkpoint are left out. Throws Error if there is no such
// preset.
ModelDescription preset_named(std::string_view);

}  // namespace trireme
