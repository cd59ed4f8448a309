#pragma once
// What model.preset names: a known shape, or that of a checkpoint.
#include <string_view>

#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/config.hpp"

namespace trireme {

inline constexpr std::string_view checkpoint_preset = "from:";

// The deck of a checkpoint, with vocab. It gives its model's shape itself: one that refers to a
// checkpoint, which might be this one, is an Error as one that cannot be read.
Deck deck_of(const CheckpointReader&);
// Its model, resolved.
ModelConfig model_of(const CheckpointReader&);

// Of "llama-7B", of "from:DIR" (a checkpoint or run directory) and of "", which is the default.
// What is no shape (dropout, recompute, init_from) stays at its default, and a checkpoint's shape
// has no name: a deck keeps its values, which outlive the checkpoint. Error when there is no such
// preset.
ModelConfig preset_named(std::string_view);

}  // namespace trireme
