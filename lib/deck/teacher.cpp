#include "lib/deck/teacher.hpp"

#include <filesystem>

#include "lib/base/error.hpp"
#include "lib/deck/check.hpp"
#include "lib/deck/preset.hpp"
#include "lib/deck/resolve.hpp"

namespace trireme {

void read_teacher(Deck& deck) {
  if (deck.train.objective != Objective::distill) return;
  const auto& name = deck.distill.teacher;
  require(std::filesystem::exists(name), "distill.teacher: there is no {}: correct the path", name);
  auto model = preset_named(std::string(checkpoint_preset) + name);
  require(model.vocab == deck.model.vocab,
          "distill.teacher: {} has a vocabulary of {}, this model one of {}: they must be the same",
          name, model.vocab, deck.model.vocab);
  const auto context = deck.model.context;
  require(context <= positions_of(model),
          "distill.teacher: {} knows {} positions, and samples have {}: lower model.context", name,
          positions_of(model), context);
  model.context = context;  // a table of positions stays as long as it is: max_context
  auto beside = deck;
  beside.model = model;
  beside.parallel.stage_layers.clear();
  for (const auto& problem : grid_problems(grid_of(beside), limits_of(beside)))
    fail("distill.teacher: {} runs on the grid of this run, too, and {}", name, problem.message);
  const auto stages = deck.parallel.pipe * deck.parallel.chunks;
  require(
      model.layers >= stages,
      "distill.teacher: {} has {} blocks, and the {} stages with {} chunks of this run need one "
      "each: lower parallel.pipe or parallel.chunks",
      name, model.layers, deck.parallel.pipe, deck.parallel.chunks);
  deck.teacher = std::move(model);
}

}  // namespace trireme
