#include "lib/deck/preset.hpp"

#include <utility>

#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_choice.hpp"

namespace trireme {

ModelDescription preset_named(std::string_view name) {
  if (name.starts_with(checkpoint_preset)) {
    const CheckpointReader reader(find_checkpoint(name.substr(checkpoint_preset.size())));
    const auto there = description_of(reader);
    return {.model = there.model, .context = there.context};
  }
  auto model = name.empty() ? ModelConfig() : model_preset(name);
  const auto context = std::exchange(model.max_context, 0);  // the positions follow the context
  return {.model = std::move(model), .context = context};
}

}  // namespace trireme
