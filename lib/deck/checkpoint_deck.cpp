#include "lib/deck/checkpoint_deck.hpp"

#include "lib/base/array_names.hpp"

namespace trireme {

// Returns the type in which the checkpoint's model computes if no deck says so.
static DType compute_type(const CheckpointReader& reader) {
  for (const auto& p : reader.params())
    if (p.dtype == DType::f64) return DType::f64;
  return DType::f32;
}

static std::string source(const CheckpointReader& reader, const char* field) {
  return (reader.directory() / field).string();
}

Deck deck_of(const CheckpointReader& reader) {
  const auto& meta = reader.meta();
  if (meta.deck.empty())
    return deck_without_run(description_of(reader), compute_type(reader),
                            reader.directory().filename().string());
  auto deck = parse_dumped_deck(meta.deck, source(reader, "deck"));
  deck.model.vocab = meta.vocab;
  return deck;
}

ModelDescription description_of(const CheckpointReader& reader) {
  const auto& meta = reader.meta();
  if (meta.model.empty()) return description_of(deck_of(reader));
  auto there = parse_model(meta.model, source(reader, "model"));
  there.model.vocab = meta.vocab;
  return there;
}

ModelConfig model_of(const CheckpointReader& reader) {
  return description_of(reader).model;
}

}  // namespace trireme
