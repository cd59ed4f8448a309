#include <algorithm>

#include "lib/deck/rules.hpp"
#include "lib/train/objective.hpp"

namespace trireme {
namespace {

class ObjectiveRules : DeckRules {
 public:
  ObjectiveRules(const Deck& deck, std::vector<DeckProblem>& problems)
      : DeckRules(deck, problems),
        traits_(traits_of(deck.train.objective)),
        objective_(name_of(deck.train.objective)) {}

  void all() {
    keys();
    teacher();
    if (traits_.samples != Documents::single) whole_documents();
    if (traits_.fixed == FixedModel::reference) reference();
    const bool one_pass = traits_.samples == Documents::single && traits_.fixed == FixedModel::none;
    if (!one_pass) second_pass();
  }

 private:
  // Keys that only other objectives use.
  void keys() {
    for (const auto& key : objective_keys()) {
      const auto uses = [&](const ObjectiveTraits& o) {
        return std::ranges::any_of(o.keys, [&](auto& k) { return k.name == key.name; });
      };
      rule(uses(traits_) || !key.is_set(deck_.train),
           {fmt::format("train.{}", key.name), "train.objective"},
           "train.{} needs train.objective = {}: set that, or remove train.{}", key.name,
           objectives_text(uses), key.name);
    }
  }

  void teacher() {
    const bool taught = traits_.fixed == FixedModel::teacher;
    const auto those = objectives_text([](auto& o) { return o.fixed == FixedModel::teacher; });
    rule(taught == !deck_.distill.teacher.empty(), {"distill.teacher", "train.objective"},
         "distill.teacher and train.objective = {} need each other: set both or neither", those);
    rule(taught || deck_.distill == DistillConfig{deck_.distill.teacher}, {"train.objective"},
         "distill.temperature and distill.weight need train.objective = {}: set that, or remove "
         "them",
         those);
    rule(!taught || deck_.parallel.expert <= 1, {"train.objective", "parallel.expert"},
         "train.objective = \"{}\" needs all experts on each rank: remove parallel.expert",
         objective_);
  }

  // Rules for objectives with a pass before the step's pass with gradients.
  void second_pass() {
    rule(deck_.run.exactness != Exactness::invariant, {"train.objective", "run.exactness"},
         "train.objective = \"{}\" does not support run.exactness = \"invariant\": use "
         "\"repeatable\" for bit-identical results on one grid",
         objective_);
    rule(deck_.run.replay_every == 0, {"train.objective", "run.replay_every"},
         "run.replay_every cannot verify the additional forward pass of train.objective = \"{}\": "
         "remove run.replay_every",
         objective_);
  }

  void reference() {
    const TrainConfig& t = deck_.train;
    rule(deck_.adapter.rank > 0 || !t.dpo_scores.empty(), {"train.objective", "train.dpo_scores"},
         "train.objective = \"{}\" needs a reference model: set adapter.rank to use the model "
         "without its adapters, or train.dpo_scores to use a file of scores",
         objective_);
    rule(
        deck_.adapter.also_train.empty() || !t.dpo_scores.empty(),
        {"train.objective", "adapter.also_train"},
        "train.objective = \"{}\" uses the model without its adapters as reference, but "
        "adapter.also_train changes other weights of this model: remove adapter.also_train, or set "
        "train.dpo_scores to use a file of scores",
        objective_);
    rule(t.dpo_scores.empty() || deck_.adapter.base == BaseType::compute,
         {"train.dpo_scores", "adapter.base"},
         "train.dpo_scores were computed with unconverted weights, but adapter.base = \"{}\" "
         "converts the weights of this run: remove train.dpo_scores",
         name_of(deck_.adapter.base));
  }

  void whole_documents() {
    const TrainConfig& t = deck_.train;
    rule(t.objective != Objective::kto || t.kto_desirable_weight + t.kto_undesirable_weight > 0,
         {"train.kto_desirable_weight", "train.kto_undesirable_weight"},
         "train.kto_desirable_weight and train.kto_undesirable_weight are both 0, so nothing would "
         "be trained: raise one of them");
    rule(deck_.data.packing == Packing::documents, {"train.objective", "data.packing"},
         "train.objective = \"{}\" trains on {}: set data.packing = \"documents\"", objective_,
         names_of(traits_.samples).many);
    rule(deck_.data.loss_weights.empty(), {"train.objective", "data.loss_weights"},
         "train.objective = \"{}\" does not support weights of documents: remove "
         "data.loss_weights",
         objective_);
    rule(deck_.data.long_documents != LongDocuments::split,
         {"train.objective", "data.long_documents"},
         "train.objective = \"{}\" cannot split documents: set data.long_documents = \"drop\" or "
         "\"refuse\"",
         objective_);
  }

  const ObjectiveTraits& traits_;
  std::string_view objective_;
};

}  // namespace

void objective_rules(const Deck& deck, std::vector<DeckProblem>& problems) {
  ObjectiveRules(deck, problems).all();
}

}  // namespace trireme
