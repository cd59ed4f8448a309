#pragma once
// The models that a run reads and never changes: the initial model or the base model of adapters
// (model.init_from), and the teacher (distill.teacher). All commands open them here.
#include <memory>
#include <optional>
#include <string>

#include "lib/comm/communicator.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// The use of a model. With `evaluation`, losses are computed as in the run. With `generation`,
// logits and the losses of single samples are computed.
enum class ModelUse : std::uint8_t { training, evaluation, generation };

struct FixedModels {
  // The base model of adapters or, for a new run, the model whose weights the run starts with. Null
  // if there is neither.
  std::unique_ptr<CheckpointReader> initial;
  // The teacher and its model. Absent if the use is not training.
  std::unique_ptr<CheckpointReader> teacher;
  std::optional<ModelConfig> teacher_model;
};

// Opens the fixed models of a resolved deck. A path in the deck may be a run directory, whose
// newest checkpoint is opened. `from` is the state in the checkpoint that the model comes from, or
// null for a new run. The base model and the teacher must then be those with which the state was
// trained: if the path leads to other weights, the function searches the same directory for a
// checkpoint with the right ones. Throws SharedError if a checkpoint is missing, contains adapters
// or another model, or if ranks see different weights. Collective.
FixedModels open_fixed_models(const Communicator& world, const Deck&, const CheckpointMeta* from,
                              ModelUse);

// Returns the deck with another path of the base model, unless the path is empty.
Deck with_base(Deck, const std::string& path);

// Returns the deck with the paths of the checkpoints that were opened, except that model.init_from
// of a model without adapters remains as it is.
Deck with_paths_of(const FixedModels&, Deck);

// Logs a warning if the initial model and the model in the deck compute different results from the
// same weights.
void compare_with_initial(const Deck&, const CheckpointReader& initial);

}  // namespace trireme
