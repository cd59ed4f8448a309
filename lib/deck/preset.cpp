#include "lib/deck/preset.hpp"

#include "lib/deck/checkpoint_deck.hpp"
#include "lib/deck/table.hpp"
#include "lib/io/checkpoint_choice.hpp"

namespace trireme {

ModelConfig preset_named(std::string_view name) {
  if (name.empty()) return {};
  if (!name.starts_with(checkpoint_preset)) return model_preset(name);
  const CheckpointReader reader(find_checkpoint(name.substr(checkpoint_preset.size())));
  const Deck plain;
  Deck deck;
  deck.model = without_adapters(model_of(reader));
  for (const auto& key : find_section("model")->keys)
    if (key.of_run) key.access.set(deck, 0, key.access.get(plain, 0));
  deck.model.max_context = positions_of(deck.model);
  return deck.model;
}

}  // namespace trireme
