#include "lib/deck/teacher.hpp"

#include <filesystem>

#include "lib/base/error.hpp"
#include "lib/deck/check.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/train/objective.hpp"

namespace trireme {

ModelConfig teacher_in(const CheckpointReader& reader, const Deck& deck) {
  const auto name = reader.directory().string();
  auto model = model_of(reader);
  require(model.vocab == deck.model.vocab,
          "distill.teacher: {} has a vocabulary of {}, but this model has one of {}: choose a "
          "teacher with the same vocabulary",
          name, model.vocab, deck.model.vocab);
  require(deck.data.context <= model.max_context,
          "distill.teacher: {} supports {} positions, but samples have {}: lower model.context",
          name, model.max_context, deck.data.context);
  auto beside = deck;
  beside.model = model;
  beside.parallel.stage_layers.clear();
  for (const auto& problem : grid_problems(grid_of(beside), limits_of(beside)))
    fail("distill.teacher: {} does not fit the grid of this run: {}", name, problem.message);
  const auto stages = deck.parallel.pipe * deck.parallel.chunks;
  require(model.layers >= stages,
          "distill.teacher: {} has {} blocks, but the {} pipeline stages with {} chunks each of "
          "this run need one block per chunk: lower parallel.pipe or parallel.chunks",
          name, model.layers, deck.parallel.pipe, deck.parallel.chunks);
  return model;
}

std::optional<ModelConfig> teacher_of(const Deck& deck) {
  if (traits_of(deck.train.objective).fixed != FixedModel::teacher) return {};
  const auto& name = deck.distill.teacher;
  require(std::filesystem::exists(name), "distill.teacher: {} does not exist: correct the path",
          name);
  return teacher_in(CheckpointReader(find_checkpoint(name)), deck);
}

}  // namespace trireme
