#include "lib/deck/preset.hpp"

#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_choice.hpp"

namespace trireme {

ModelConfig preset_named(std::string_view name) {
  if (name.empty()) return {};
  if (!name.starts_with(checkpoint_preset)) return model_preset(name);
  const CheckpointReader reader(find_checkpoint(name.substr(checkpoint_preset.size())));
  auto shape = model_of(reader);
  const ModelConfig plain;
  shape.preset = plain.preset;
  shape.dropout = plain.dropout;
  shape.recompute = plain.recompute;
  shape.chunk_tokens = plain.chunk_tokens;
  shape.offload = plain.offload;
  shape.init_from = plain.init_from;
  shape.adapter = plain.adapter;
  shape.max_context = positions_of(shape);
  return shape;
}

}  // namespace trireme
