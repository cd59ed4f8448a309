#include "lib/deck/rules.hpp"

namespace trireme {
namespace {

class ObjectiveRules : DeckRules {
 public:
  using DeckRules::DeckRules;

  void all() {
    const TrainConfig& t = deck_.train;
    const bool dpo = t.objective == Objective::dpo, distill = t.objective == Objective::distill;
    rule(dpo || t.dpo_beta == TrainConfig().dpo_beta, {"train.dpo_beta", "train.objective"},
         "train.dpo_beta needs train.objective = \"dpo\": set that, or remove train.dpo_beta");
    rule(dpo || t.dpo_scores.empty(), {"train.dpo_scores", "train.objective"},
         "train.dpo_scores needs train.objective = \"dpo\": set that, or remove train.dpo_scores");
    rule(distill == !deck_.distill.teacher.empty(), {"distill.teacher", "train.objective"},
         "distill.teacher and train.objective = \"distill\" need each other: set both or neither");
    rule(distill || deck_.distill == DistillConfig{deck_.distill.teacher}, {"train.objective"},
         "distill.temperature and distill.weight need train.objective = \"distill\": set that, or "
         "remove them");
    if (dpo) preferences();
    if (distill)
      rule(deck_.parallel.expert <= 1, {"train.objective", "parallel.expert"},
           "train.objective = \"distill\" needs all experts on each rank: remove parallel.expert");
    if (dpo || distill) second_pass();
  }

 private:
  // Another model, or the same one without its adapters, computes before the step does.
  void second_pass() {
    const auto objective = name_of(deck_.train.objective);
    rule(deck_.run.exactness != Exactness::invariant, {"train.objective", "run.exactness"},
         "train.objective = \"{}\" does not support run.exactness = \"invariant\": use "
         "\"repeatable\" for bit-identical results on one grid",
         objective);
    rule(deck_.run.replay_every == 0, {"train.objective", "run.replay_every"},
         "run.replay_every cannot verify the additional forward pass of train.objective = \"{}\": "
         "remove run.replay_every",
         objective);
  }

  void preferences() {
    const TrainConfig& t = deck_.train;
    rule(deck_.model.adapter.rank > 0 || !t.dpo_scores.empty(),
         {"train.objective", "train.dpo_scores"},
         "train.objective = \"dpo\" needs a reference model: set adapter.rank to use the model "
         "without its adapters, or train.dpo_scores to use a file of scores");
    rule(t.dpo_scores.empty() || deck_.model.adapter.base == BaseType::compute,
         {"train.dpo_scores", "adapter.base"},
         "train.dpo_scores were computed with unconverted weights, but adapter.base = \"{}\" "
         "converts the weights of this run: remove train.dpo_scores",
         name_of(deck_.model.adapter.base));
    rule(
        deck_.data.packing == Packing::documents, {"train.objective", "data.packing"},
        "train.objective = \"dpo\" trains on pairs of documents: set data.packing = \"documents\"");
    rule(deck_.data.long_documents != LongDocuments::split,
         {"train.objective", "data.long_documents"},
         "train.objective = \"dpo\" cannot split documents: set data.long_documents = \"drop\" or "
         "\"refuse\"");
  }
};

}  // namespace

void objective_rules(const Deck& deck, std::vector<DeckProblem>& problems) {
  ObjectiveRules(deck, problems).all();
}

}  // namespace trireme
