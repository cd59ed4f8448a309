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
         "train.dpo_beta is of train.objective = \"dpo\": give that, or leave it out");
    rule(dpo || t.dpo_scores.empty(), {"train.dpo_scores", "train.objective"},
         "train.dpo_scores is of train.objective = \"dpo\": give that, or leave it out");
    rule(distill == !deck_.distill.teacher.empty(), {"distill.teacher", "train.objective"},
         "distill.teacher and train.objective = \"distill\" go together: give both or none");
    rule(distill || deck_.distill == DistillConfig{deck_.distill.teacher}, {"train.objective"},
         "distill.temperature and distill.weight are of train.objective = \"distill\": give that, "
         "or leave them out");
    if (dpo) preferences();
    if (distill)
      rule(deck_.parallel.expert <= 1, {"train.objective", "parallel.expert"},
           "train.objective = \"distill\" needs all experts on each rank: leave parallel.expert "
           "out");
    if (dpo || distill) second_pass();
  }

 private:
  // Another model, or the same one without its adapters, computes before the step does.
  void second_pass() {
    const auto objective = name_of(deck_.train.objective);
    rule(deck_.run.exactness != Exactness::invariant, {"train.objective", "run.exactness"},
         "train.objective = \"{}\" is not for run.exactness = \"invariant\": give \"repeatable\" "
         "for the same bits on one grid",
         objective);
    rule(deck_.run.replay_every == 0, {"train.objective", "run.replay_every"},
         "run.replay_every computes the pass with gradients twice, not the one before it of "
         "train.objective = \"{}\": leave it out",
         objective);
  }

  void preferences() {
    const TrainConfig& t = deck_.train;
    rule(
        deck_.model.adapter.rank > 0 || !t.dpo_scores.empty(),
        {"train.objective", "train.dpo_scores"},
        "train.objective = \"dpo\" compares with a fixed model: give adapter.rank, to compare with "
        "the model that adapters stand beside, or train.dpo_scores, the scores of one");
    rule(t.dpo_scores.empty() || deck_.model.adapter.base == BaseType::compute,
         {"train.dpo_scores", "adapter.base"},
         "train.dpo_scores are of whole weights, and adapter.base = \"{}\" compares with what is "
         "kept of them: leave train.dpo_scores out",
         name_of(deck_.model.adapter.base));
    rule(deck_.data.packing == Packing::documents, {"train.objective", "data.packing"},
         "train.objective = \"dpo\" is of pairs of documents: give data.packing = \"documents\"");
    rule(deck_.data.long_documents != LongDocuments::split,
         {"train.objective", "data.long_documents"},
         "train.objective = \"dpo\" is of pairs of whole documents, of which none is split: give "
         "data.long_documents = \"drop\" or \"refuse\"");
  }
};

}  // namespace

void objective_rules(const Deck& deck, std::vector<DeckProblem>& problems) {
  ObjectiveRules(deck, problems).all();
}

}  // namespace trireme
