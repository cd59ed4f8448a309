// Rules about objectives.
#include "tests/deck/problems.hpp"

namespace trireme {

TEST(Check, PreferencesAreOfPairsAgainstAModel) {
  Deck d = sound();
  d.train.dpo_beta = 0.5;
  expect_problem(d, "train.dpo_beta", "needs train.objective = \"dpo\"");
  d.train.objective = Objective::dpo;
  d.data.packing = Packing::documents;
  d.data.attention = AttentionSpan::document;
  expect_problem(d, "train.objective", "set adapter.rank");
  d.train.dpo_scores = "pairs.scores";
  EXPECT_TRUE(check_deck(d).empty());
  d.train.objective = Objective::tokens;
  d.train.dpo_beta = TrainConfig().dpo_beta;
  expect_problem(d, "train.dpo_scores", "needs train.objective = \"dpo\"");
  d.train.objective = Objective::dpo;
  d.train.dpo_scores.clear();
  d.adapter.rank = 4;
  EXPECT_TRUE(check_deck(d).empty());
  d.run.replay_every = 2;
  expect_problem(d, "train.objective",
                 "run.replay_every cannot verify the additional forward pass");
  d.run.replay_every = 0;
  d.run.exactness = Exactness::invariant;
  expect_problem(d, "train.objective", "does not support run.exactness = \"invariant\"");
  d.run.exactness = Exactness::fast;
  d.data.packing = Packing::windows;
  expect_problem(d, "train.objective", "set data.packing = \"documents\"");
}

// Keys of other objectives have no effect; there is no reference, and no pass that can be replayed.
TEST(Check, PreferencesWithoutAReferenceNeedNone) {
  for (const auto objective : {Objective::simpo, Objective::orpo}) {
    const auto name = std::string(name_of(objective));
    Deck d = sound();
    d.train.objective = objective;
    expect_problem(d, "train.objective",
                   "train.objective = \"" + name + "\" trains on preference pairs");
    d.data.packing = Packing::documents;
    d.data.attention = AttentionSpan::document;
    EXPECT_TRUE(check_deck(d).empty()) << name;
    d.train.dpo_scores = "pairs.scores";
    expect_problem(
        d, "train.dpo_scores",
        "train.dpo_scores needs train.objective = \"dpo\" or \"kto\": set that, or remove");
    d.train.dpo_scores.clear();
    d.train.dpo_beta = 0.5;
    expect_problem(d, "train.dpo_beta", "needs train.objective = \"dpo\"");
    d.train.dpo_beta = TrainConfig().dpo_beta;
    d.run.exactness = Exactness::invariant;
    expect_problem(d, "train.objective",
                   "\"" + name + "\" does not support run.exactness = \"invariant\"");
    d.run.exactness = Exactness::fast;
    d.data.loss_weights = {2};
    expect_problem(d, "train.objective", "\"" + name + "\" does not support weights of documents");
    d.data.loss_weights.clear();
    d.data.long_documents = LongDocuments::split;
    expect_problem(d, "train.objective", "cannot split documents");
  }
  Deck d = sound();
  d.train.simpo_gamma = 0;
  expect_problem(d, "train.simpo_gamma", "needs train.objective = \"simpo\"");
  d.train.simpo_gamma = TrainConfig().simpo_gamma;
  d.train.orpo_lambda = 1;
  expect_problem(d, "train.orpo_lambda", "needs train.objective = \"orpo\"");
}

TEST(Check, LabeledAnswersNeedAReference) {
  Deck d = sound();
  d.train.objective = Objective::kto;
  d.train.dpo_scores = "answers.scores";
  expect_problem(d, "train.objective", "\"kto\" trains on labeled answers");
  d.data.packing = Packing::documents;
  d.data.attention = AttentionSpan::document;
  d.train.dpo_scores.clear();
  expect_problem(d, "train.objective", "set adapter.rank");
  d.train.dpo_scores = "answers.scores";
  EXPECT_TRUE(check_deck(d).empty());
  d.train.dpo_scores.clear();
  d.adapter.rank = 4;
  d.train.kto_beta = 0.2;
  d.train.kto_desirable_weight = 0;
  EXPECT_TRUE(check_deck(d).empty());
  d.train.kto_undesirable_weight = 0;
  expect_problem(d, "train.kto_desirable_weight", "are both 0, so nothing would be trained");
  d.train.kto_undesirable_weight = 1;
  d.run.replay_every = 2;
  expect_problem(d, "train.objective", "run.replay_every cannot verify");
  d.run.replay_every = 0;
  d.train.dpo_beta = 0.5;
  expect_problem(d, "train.dpo_beta", "needs train.objective = \"dpo\"");
  d.train.dpo_beta = TrainConfig().dpo_beta;
  d.train.objective = Objective::dpo;
  d.train.kto_desirable_weight = 1;
  expect_problem(d, "train.kto_beta", "needs train.objective = \"kto\"");
}

}  // namespace trireme
