#pragma once
// Training objectives. Each objective is one value of ObjectiveTraits. Deck rules, commands, plans
// and tables read the traits, and not the objective's name. ObjectiveSetup contains an objective's
// numbers for a Trainer, and passes_of_step() lists the passes of a step.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/data/token_file.hpp"
#include "lib/model/config.hpp"
#include "lib/train/config.hpp"
#include "lib/train/preference.hpp"

namespace trireme {

// A model that does not learn, but that the loss depends on. A reference is the model without its
// adapters, or a file of scores. A teacher is another model in memory.
enum class FixedModel : std::uint8_t { none, reference, teacher };

// What evaluations and the columns of tables report in addition to the loss.
enum class Measures : std::uint8_t { perplexity, preferences };

// A key of [train] that some objectives use and others reject.
struct ObjectiveKey {
  std::string_view name;
  std::variant<double TrainConfig::*, std::string TrainConfig::*> member;

  // Returns true if the value is not the default.
  bool is_set(const TrainConfig&) const;
};

// Everything by which objectives differ.
struct ObjectiveTraits {
  Objective objective;
  Documents samples;
  FixedModel fixed;
  Measures measures;
  std::span<const ObjectiveKey> keys;
  PreferenceLoss (*loss)(const TrainConfig&);  // null if samples are single documents
};
const ObjectiveTraits& traits_of(Objective);

// Returns the names of the objectives for which `holds` is true, as "a", "b" or "c" with quotes.
std::string objectives_text(const std::function<bool(const ObjectiveTraits&)>& holds);
// Returns the names of the objectives that train on documents of this kind.
std::string objectives_for(Documents);
// Returns the keys of all objectives, each one once.
std::vector<ObjectiveKey> objective_keys();
// Returns the keys as "train.a, train.b".
std::string objective_keys_text();
// Returns the numbers that the objective's loss uses, such as "simpo_beta 2 and simpo_gamma 1".
std::string loss_settings_text(const TrainConfig&);

// The reference model of a loss. `without_adapters` is the model without its adapters, evaluated in
// a second forward pass. `given` takes log-probabilities from the batches (Batch::reference_D).
enum class Reference : std::uint8_t { none, without_adapters, given };

// Next-token prediction, without further settings.
struct TokenTraining {
  bool operator==(const TokenTraining&) const = default;
};

// Training on pairs of documents or on labeled answers.
struct PreferenceTraining {
  PreferenceLoss loss;
  Reference reference = Reference::without_adapters;

  bool operator==(const PreferenceTraining&) const = default;
};

// Distillation from a teacher: a frozen model with the same vocabulary. The teacher's forward pass
// runs before each step.
struct TeacherSetup {
  ModelConfig model;
  double temperature = 1, weight = 0.5;

  bool operator==(const TeacherSetup&) const = default;
};

using ObjectiveSetup = std::variant<TokenTraining, PreferenceTraining, TeacherSetup>;

// Returns the settings of the deck's objective. `teacher` is the model of distill.teacher. If it is
// absent, the model is only evaluated, for which a teacher is not needed.
ObjectiveSetup objective_setup(const TrainConfig&, const DistillConfig&,
                               const std::optional<ModelConfig>& teacher);

// A pass of a step over all micro-batches.
enum class StepPass : std::uint8_t {
  teacher_inputs,    // forward pass of the teacher, which keeps the inputs of its head
  policy_losses,     // forward pass that computes the loss of each document
  reference_losses,  // the same without adapters
  gradients          // forward and backward pass
};
// Returns the passes of a step in the order in which they run. The last one computes the gradients.
// Evaluation of preferences runs the passes before the last one.
std::vector<StepPass> passes_of_step(const ObjectiveSetup&);

// A point in a step: how many units of work are complete, and how many units the step has.
struct StepProgress {
  int done, of;
};
// Returns the progress of a step with `microbatches` micro-batches when `m` micro-batches of the
// pass with gradients are complete. A forward and a backward pass count as three forward passes.
StepProgress progress_of(std::span<const StepPass>, int m, int microbatches);

}  // namespace trireme
