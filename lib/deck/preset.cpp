#include "lib/deck/preset.hpp"

#include "lib/io/checkpoint_list.hpp"

namespace trireme {

Deck deck_of(const CheckpointReader& reader) {
  auto deck = parse_dumped_deck(reader.meta().deck, (reader.directory() / "deck").string());
  deck.model.vocab = reader.meta().vocab;
  return deck;
}

ModelConfig model_of(const CheckpointReader& reader) {
  return deck_of(reader).model;
}

ModelConfig preset_named(std::string_view name) {
  if (name.empty()) return {};
  if (!name.starts_with(checkpoint_preset)) return model_preset(name);
  const CheckpointReader reader(find_checkpoint(name.substr(checkpoint_preset.size())));
  auto shape = model_of(reader);
  const ModelConfig plain;
  shape.preset = plain.preset;
  shape.dropout = plain.dropout;
  shape.recompute = plain.recompute;
  shape.init_from = plain.init_from;
  return shape;
}

}  // namespace trireme
