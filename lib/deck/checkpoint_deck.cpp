#include "lib/deck/checkpoint_deck.hpp"

namespace trireme {

Deck deck_of(const CheckpointReader& reader) {
  auto deck = parse_dumped_deck(reader.meta().deck, (reader.directory() / "deck").string());
  deck.model.vocab = reader.meta().vocab;
  return deck;
}

ModelConfig model_of(const CheckpointReader& reader) {
  return deck_of(reader).model;
}

}  // namespace trireme
