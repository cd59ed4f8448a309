#pragma once
// Resolves a deck: values that the deck leaves open are determined from the ranks, the nodes and
// the token files. Also converts a resolved deck to the input of a plan.
#include <cstdint>
#include <optional>

#include "lib/deck/deck.hpp"
#include "lib/plan/plan.hpp"
#include "lib/predict/choices.hpp"

namespace trireme {

// Ranks, nodes and token files for which a deck is resolved.
struct DeckContext {
  std::int64_t ranks = 1;
  // Number of consecutive ranks on each node. 0 if unknown.
  std::int64_t ranks_of_node = 0;
  // Vocabulary size that the token files require. 0 if no file is known.
  std::int64_t vocab = 0;
};

// Returns the deck with all values set: parallel.data and train.microbatch according to the ranks,
// model.vocab according to the token files, and a number for zero.shard = "node". Throws Error,
// naming valid values, if the deck does not fit the ranks.
Deck resolve(Deck, const DeckContext&);

// Replaces train.epochs, if it is set, by train.tokens. Throws Error if there are more than 2^53
// tokens.
Deck with_tokens_for_epochs(Deck, std::int64_t samples_per_epoch);

// Returns how the run ranks evaluations. The set is evaluate.best_set, or else data.validation, or
// else the first [[validation]] section.
EvaluationRanking ranking_of(const Deck&);

// Returns the input of a trainer or a plan for a resolved deck. `compute` is the compute type that
// the machine supports. `teacher` is the model of distill.teacher (lib/deck/teacher.hpp). If it is
// absent although the objective is distillation, the model is only evaluated. The last argument
// says whether training documents have weights (document_weights()).
PlanInput plan_input_of(const Deck&, DType compute, TransportKind,
                        const std::optional<ModelConfig>& teacher, DocumentWeights);
// Returns the grid of a deck. `data` is 0 if the deck does not set it.
Grid grid_of(const Deck&);

// Returns the deck resolved for one rank, ignoring the deck's grid.
Deck on_one_rank(Deck, std::int64_t vocab = 0);

// Returns the deck resolved for one rank, but with those keys of [parallel] and [zero] that a
// search for other grids keeps.
Deck to_search(const Deck&, std::int64_t vocab);
// Returns the settings of the deck that overrides must reset in a search for other grids.
SettingsToReset set_by(const Deck&);

}  // namespace trireme
