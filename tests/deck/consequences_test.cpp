#include "lib/deck/consequences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lib/deck/resolve.hpp"
#include "lib/deck/table.hpp"
#include "tests/deck/sample.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Words = std::vector<std::string>;

// After 40 of 100 steps of 4 samples of 8 tokens.
const Words base{"train.steps=100", "train.batch=4",       "train.microbatch=1",
                 "model.context=8", "model.layers=2",      "model.width=16",
                 "model.heads=2",   "optimizer.lr=1e-3",   "schedule.shape=constant",
                 "parallel.data=1", "data.validation=0.1", "evaluate.every_steps=10"};
constexpr std::int64_t step = 40, epoch = 100;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Consequence> after(const Words& before, const Words& now,
                               Beginning beginning = Beginning::restart) {
  CheckpointMeta meta;
  meta.step = step;
  meta.samples = step * 4;
  meta.tokens = step * 32;
  const auto a = on_one_rank(overridden(base + before), 32),
             b = on_one_rank(overridden(base + now), 32);
  return consequences({a, b, meta, epoch}, beginning);
}
std::vector<std::string> texts_after(const Words& before, const Words& now,
                                     Beginning beginning = Beginning::restart) {
  std::vector<std::string> texts;
  for (const auto& consequence : after(before, now, beginning)) {
    EXPECT_NE(consequence.affects, Affects::rounding) << consequence.text();
    texts.push_back(consequence.text());
  }
  return texts;
}

// A new key must be in the table, or in one of the lists.
TEST(Consequences, EachKeyIsTreated) {
  const auto treated = treated_keys();
  std::map<std::string, std::set<std::string>> places;
  for (const auto& key : treated.consequence) places[key].insert("consequence");
  for (const auto& key : treated.nothing) places[key].insert("nothing");
  for (const auto& key : treated.elsewhere) places[key].insert("elsewhere");
  for (const auto& path : deck_key_paths()) {
    EXPECT_EQ(places[path].size(), 1U)
        << path << " must be in the table of lib/deck/consequences.cpp or in one of its lists";
    places.erase(path);
  }
  for (const auto& [key, _] : places) ADD_FAILURE() << key << " is not a key of a deck";
}

TEST(Consequences, EqualDecksHaveNone) {
  EXPECT_THAT(texts_after({}, {}), IsEmpty());
}

TEST(Consequences, TheLearningRateOfTheNextSteps) {
  EXPECT_THAT(texts_after({}, {"optimizer.lr=4e-3"}),
              ElementsAre(AllOf(HasSubstr("optimizer.lr: the learning rate jumps: it was 0.001 in "
                                          "step 40; in step 41, it is 0.004 with this deck and "
                                          "0.001 with the checkpoint's deck"))));
  EXPECT_THAT(texts_after({}, {"optimizer.lr=1.01e-3"}), IsEmpty());
  EXPECT_THAT(texts_after({}, {"train.steps=200"}), IsEmpty());
  // Linear from step 1 on: the rate after 40 of 100 or of 50 steps.
  EXPECT_THAT(texts_after({"schedule.shape=linear"}, {"schedule.shape=linear", "train.steps=50"}),
              ElementsAre(AllOf(HasSubstr("train.steps: "), HasSubstr("it is 0.0002 with this deck "
                                                                      "and 0.0006 with"))));
  EXPECT_THAT(texts_after({}, {"schedule.shape=wsd", "schedule.decay_steps=20"}),
              ElementsAre(AllOf(HasSubstr("schedule.shape, schedule.decay_steps: the learning rate "
                                          "of later steps changes: in step 8"),
                                HasSubstr("and 0.001 with the checkpoint's deck"))));
}

TEST(Consequences, KeysThatLeaveTheLearningRateAreNotNamed) {
  const Words later{"train.batch_ramp=[\"2 until 60 steps\"]"};
  EXPECT_THAT(texts_after({}, later + Words{"optimizer.lr=4e-3"}),
              ElementsAre(HasSubstr("optimizer.lr: the learning rate jumps"),
                          HasSubstr("train.batch_ramp: step 41 trains on 2 samples")));
  // A schedule in tokens depends on the batch.
  const Words linear{"schedule.shape=linear", "schedule.warmup_tokens=32"};
  EXPECT_THAT(texts_after(linear, linear + Words{"train.batch=16"}),
              testing::Contains(HasSubstr("train.batch: the learning rate")));
}

// A decay that is shorter than the distance between the steps that are looked at.
TEST(Consequences, AShortDecayIsSeen) {
  const Words wsd{"schedule.shape=wsd", "schedule.decay_steps=2", "train.steps=100000",
                  "schedule.warmup_steps=0"};
  EXPECT_THAT(texts_after(wsd, wsd + Words{"schedule.decay_end_steps=[7777]"}),
              ElementsAre(HasSubstr("the learning rate of later steps changes: in step 7777")));
}

TEST(Consequences, ARampThatHasEndedHasNone) {
  const Words ramp{"train.batch_ramp=[\"2 until 20 steps\"]"};
  EXPECT_THAT(texts_after({}, ramp), IsEmpty());
  EXPECT_THAT(texts_after(ramp, {"train.batch_ramp=[\"1 until 10 steps\", \"2 until 30 steps\"]"}),
              IsEmpty());
  EXPECT_THAT(texts_after({"train.batch_ramp=[\"2 until 60 steps\"]"},
                          {"train.batch_ramp=[\"2 until 50 steps\"]"}),
              ElementsAre("train.batch_ramp: step 51 trains on 4 samples instead of 2"));
}

TEST(Consequences, BatchesAndSamples) {
  EXPECT_THAT(texts_after({}, {"train.batch=8"}),
              ElementsAre("train.batch: step 41 trains on 8 samples (64 tokens) instead of 4 (32 "
                          "tokens)",
                          HasSubstr("train.batch: later evaluations of data.validation")));
  EXPECT_THAT(texts_after({"evaluate.batches=0"}, {"evaluate.batches=0", "train.batch=8"}),
              ElementsAre(HasSubstr("step 41 trains on 8 samples")));
  // 160 samples of epochs of 100: of the 60 of this epoch, 24 of the other 40 are expected again.
  EXPECT_THAT(texts_after({}, {"train.seed=7"}),
              ElementsAre("train.seed: from sample 160 on, samples come in another order: in the "
                          "rest of this epoch, about 24 of its 100 samples are used again, and as "
                          "many are left out"));
  EXPECT_THAT(texts_after({"data.order=sequential"}, {"data.order=sequential", "train.seed=7"}),
              IsEmpty());
  EXPECT_THAT(texts_after({"data.order=sequential", "model.dropout=0.1"},
                          {"data.order=sequential", "model.dropout=0.1", "train.seed=7"}),
              ElementsAre("train.seed: dropout chooses other activations"));
  EXPECT_THAT(texts_after({}, {"data.packing=documents", "data.attention=document"}),
              ElementsAre(HasSubstr("data.packing: from sample 160 on, samples consist of other"),
                          HasSubstr("data.attention: each token attends only to its own document"),
                          HasSubstr("data.packing, data.attention: later evaluations of "
                                    "data.validation")));
  EXPECT_THAT(texts_after({}, {"data.validation=0.2"}),
              ElementsAre(HasSubstr("samples consist of other tokens"),
                          AllOf(HasSubstr("data.validation: later evaluations of data.validation"),
                                HasSubstr("not comparable with earlier ones"))));
}

TEST(Consequences, Optimizer) {
  EXPECT_THAT(texts_after({}, {"optimizer.betas=[0.9,0.999]"}),
              ElementsAre("optimizer.betas: the means of gradients and of their squares reach back "
                          "about 10 and 1000 steps instead of 10 and 20"));
  EXPECT_THAT(texts_after({}, {"optimizer.weight_decay=0"}),
              ElementsAre("optimizer.weight_decay: in step 41, weights shrink by 0 of their value "
                          "instead of 0.0001"));
  EXPECT_THAT(texts_after({}, {"optimizer.clip=0"}),
              ElementsAre("optimizer.clip: gradient clipping is off instead of at norm 1"));
}

TEST(Consequences, OptimizersOfMatrices) {
  const Words muon{"optimizer.name=muon"}, shampoo{"optimizer.name=shampoo"};
  EXPECT_THAT(texts_after(muon, muon + Words{"optimizer.matrix_scale=sqrt(out/in)"}),
              ElementsAre("optimizer.matrix_scale: the factor on the steps of matrices is "
                          "\"sqrt(out/in)\" instead of \"sqrt(max(1, out/in))\""));
  EXPECT_THAT(
      texts_after(muon, muon + Words{"optimizer.matrix_momentum=0.9",
                                     "optimizer.muon_polynomials=polar-express"}),
      ElementsAre("optimizer.matrix_momentum: the momentum of matrices decays by the factor "
                  "0.9 in each step instead of 0.95",
                  HasSubstr("optimizer.muon_polynomials: the polynomials")));
  EXPECT_THAT(texts_after(shampoo, shampoo + Words{"optimizer.shampoo_every=1"}),
              ElementsAre("optimizer.shampoo_every: roots are computed every 1 updates instead of "
                          "every 10"));
  EXPECT_THAT(texts_after(muon, muon + Words{"optimizer.betas=[0.9,0.999]", "optimizer.eps=1e-9"}),
              ElementsAre(HasSubstr("optimizer.betas: "), HasSubstr("optimizer.eps: ")));
  // Values that are left open are those of the matrices.
  EXPECT_THAT(
      texts_after(muon, muon + Words{"optimizer.adamw_lr=5e-4", "optimizer.adamw_weight_decay=0"}),
      ElementsAre("optimizer.adamw_lr: the peak learning rate of the parameters that AdamW "
                  "updates is 0.0005 instead of 0.001",
                  "optimizer.adamw_weight_decay: the weight decay of the parameters that "
                  "AdamW updates is 0 instead of 0.1"));
  EXPECT_THAT(texts_after(muon, muon + Words{"optimizer.adamw_lr=1e-3"}), IsEmpty());
}

// As a deck could say if no rule refused it.
TEST(Consequences, WhatADeckDoesNotUseHasNone) {
  const auto before = on_one_rank(overridden(base), 32);
  CheckpointMeta meta;
  meta.step = step;
  for (const auto change :
       {+[](Deck& d) { d.optimizer.momentum = 0.5; }, +[](Deck& d) { d.train.simpo_beta = 7; },
        +[](Deck& d) { d.optimizer.matrix_momentum = 0.5; },
        +[](Deck& d) { d.optimizer.shampoo_every = 5; }, +[](Deck& d) { d.optimizer.adamw_lr = 1; },
        +[](Deck& d) { d.distill.weight = 0.1; }, +[](Deck& d) { d.train.balance_rate = 0.1; },
        +[](Deck& d) { d.data.long_documents = LongDocuments::drop; }}) {
    auto now = before;
    change(now);
    EXPECT_EQ(deck_differences(before, now).size(), 1U);
    EXPECT_TRUE(consequences({before, now, meta, epoch}, Beginning::restart).empty());
  }
}

TEST(Consequences, EachChangedKeyOfARowHasItsSentence) {
  const Words dpo{"train.objective=simpo", "data.packing=documents", "data.attention=document"};
  EXPECT_THAT(texts_after(dpo, dpo + Words{"train.simpo_beta=3", "train.simpo_gamma=0.5"}),
              ElementsAre(AllOf(HasSubstr("train.simpo_beta: "), HasSubstr("3 instead of 2")),
                          AllOf(HasSubstr("train.simpo_gamma: "), HasSubstr("0.5 instead of 1"))));
  EXPECT_THAT(
      texts_after({}, {"model.dropout=0.1"}),
      ElementsAre("model.dropout: the dropout probability of activations is 0.1 instead of 0"));
  EXPECT_THAT(texts_after({}, {"precision.tf32=true"}),
              ElementsAre("precision.tf32: the use of TF32 for f32 products on GPUs changes from "
                          "false to true"));
  EXPECT_THAT(texts_after({}, {"train.skip_steps=[\"7\"]"}), IsEmpty());
  EXPECT_THAT(texts_after({"train.skip_steps=[\"50\"]"}, {"train.skip_steps=[\"30-45\", \"50\"]"}),
              ElementsAre("train.skip_steps: of the coming steps, the list contains 41 to 45, 50 "
                          "instead of 50"));
}

std::vector<std::string> texts_between(const Deck& before, const Deck& after,
                                       std::optional<std::vector<std::string>> changed_sets = {}) {
  CheckpointMeta meta;
  meta.step = step;
  std::vector<std::string> all;
  meta.samples = step * 4;
  meta.tokens = step * 32;
  for (const auto& c :
       consequences({before, after, meta, epoch, std::move(changed_sets)}, Beginning::restart))
    all.push_back(c.text());
  return all;
}

TEST(Consequences, Evaluations) {
  const auto sets = [](const Words& more) {
    return parsed(std::string(least_deck) +
                      "[[validation]]\nname = 'code'\npath = 'c.tokens'\nweight = 1\n"
                      "[[validation]]\nname = 'text'\npath = 't.tokens'\nweight = 1\n",
                  base + more);
  };
  const auto before = sets({});
  // The tokens decide, not the paths, unless the checkpoint does not identify the tokens.
  auto now = before;
  now.data.sets[1].path = {"other.tokens"};
  EXPECT_THAT(
      texts_between(before, now),
      ElementsAre("validation.path: later evaluations of text, mean are not comparable with "
                  "earlier ones"));
  EXPECT_THAT(texts_between(before, now, std::vector<std::string>()), IsEmpty());
  // Keys that do not matter are not named.
  auto more = before;
  more.evaluate.batches = now.evaluate.batches = 0;
  now.train.batch = 8;
  EXPECT_THAT(texts_between(more, now, std::vector<std::string>{"text"}),
              testing::Contains(HasSubstr("validation.path: later evaluations of text, mean")));
  now = before;
  now.data.sets[1].path = {"other.tokens"};
  EXPECT_THAT(
      texts_between(before, now, std::vector<std::string>{"text"}),
      ElementsAre("validation.path: later evaluations of text, mean are not comparable with "
                  "earlier ones"));
  EXPECT_THAT(texts_between(before, before, std::vector<std::string>{""}),
              ElementsAre(HasSubstr("later evaluations of data.validation are not comparable")));
  now = before;
  now.data.sets[1].weight = 2;
  EXPECT_THAT(texts_between(before, now),
              ElementsAre(HasSubstr("later evaluations of mean are not comparable")));
  now = before;
  now.data.sets[1] = {"new", {"n.tokens"}};
  EXPECT_THAT(texts_between(before, now),
              ElementsAre(HasSubstr("later evaluations of mean are not comparable")));
  now = before;
  now.evaluate.batches = 7;
  now.evaluate.patience = 3;
  EXPECT_THAT(texts_between(before, now),
              ElementsAre(AllOf(HasSubstr("data.validation, code, text, mean"),
                                HasSubstr("still compare them"))));
}

TEST(Consequences, FreezeRules) {
  const auto before = on_one_rank(overridden(base), 32);
  auto now = before;
  now.freeze.push_back({"*", 0, 0, ThawMoments::fresh});
  CheckpointMeta meta;
  meta.step = step;
  const auto all = consequences({before, now, meta, epoch}, Beginning::restart);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_THAT(all[0].text(), HasSubstr("step 41 trains 0 of "));
  now = before;
  now.freeze.push_back({"*", 0, 30, ThawMoments::fresh});  // over before
  EXPECT_THAT(texts_between(before, now), IsEmpty());
  now.freeze.push_back({"*", 60, 70, ThawMoments::fresh});
  EXPECT_THAT(texts_between(before, now), ElementsAre(HasSubstr("later steps follow")));
}

TEST(Consequences, SamplesAndSkippedSteps) {
  EXPECT_THAT(texts_after({}, {"data.order=sequential"}),
              ElementsAre(HasSubstr("samples come in sequential order")));
  EXPECT_THAT(texts_after({}, {"train.skip_above=6"}),
              ElementsAre(HasSubstr("more than 6 standard deviations above the mean of the last "
                                    "128 steps")));
  const auto before = on_one_rank(overridden(base), 32);
  auto now = before;
  now.data.path.push_back("more.tokens");
  now.data.weights = {1, 2};
  EXPECT_THAT(texts_between(before, now),
              ElementsAre(HasSubstr("each file continues where it stopped")));
  auto mixed = before;
  mixed.data.path = now.data.path;
  EXPECT_THAT(texts_between(mixed, now), ElementsAre(HasSubstr("some samples are used again")));
  now = before;
  now.data.phases.push_back({100, 0, {"more.tokens"}, {}});
  EXPECT_THAT(texts_between(before, now),
              ElementsAre(HasSubstr("the later [[phase]] sections are those of this deck")));
}

// After 40 steps, the second of three phases has begun.
TEST(Consequences, OnlyPhasesThatHaveNotEndedCount) {
  auto before = on_one_rank(overridden(base), 32);
  before.data.path = {"a.tokens", "b.tokens"};
  before.data.weights = {1, 1};
  before.data.phases = {{.from_step = 10, .from_tokens = 0, .weights = {1, 2}},
                        {.from_step = 30, .from_tokens = 0, .weights = {1, 3}},
                        {.from_step = 70, .from_tokens = 0, .weights = {1, 4}}};
  auto now = before;
  now.data.weights = {5, 1};
  now.data.phases[0].weights = {7, 2};
  now.data.phases[0].from_step = 12;
  EXPECT_THAT(texts_between(before, now), IsEmpty());
  now.data.phases.erase(now.data.phases.begin());
  EXPECT_THAT(texts_between(before, now), IsEmpty());
  now = before;
  now.data.phases[1].weights = {2, 3};
  EXPECT_THAT(texts_between(before, now),
              ElementsAre(HasSubstr("samples come from the files in other shares: each file "
                                    "continues")));
  now = before;
  now.data.phases[2].from_step = 60;
  EXPECT_THAT(texts_between(before, now), ElementsAre(HasSubstr("later [[phase]] sections")));
  // Shares are relative, and files may move.
  now = before;
  now.data.phases[1].weights = {2, 6};
  now.data.path = {"elsewhere/a.tokens", "elsewhere/b.tokens"};
  EXPECT_THAT(texts_between(before, now), IsEmpty());
  // A section whose start has passed begins now.
  now = before;
  now.data.phases.insert(now.data.phases.begin() + 2,
                         {.from_step = 35, .from_tokens = 0, .weights = {9, 1}});
  EXPECT_THAT(texts_between(before, now),
              ElementsAre(AllOf(HasSubstr("from sample 160 on"), Not(HasSubstr("later")))));
}

TEST(Consequences, AGridChangesRoundingUnlessBitsArePromised) {
  auto before = on_one_rank(overridden(base), 32);
  auto now = before;
  now.parallel.pipe = 2;
  now.zero.stage = 2;
  CheckpointMeta meta;
  meta.step = step;
  const auto all = consequences({before, now, meta, epoch}, Beginning::restart);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].affects, Affects::rounding);
  EXPECT_THAT(all[0].text(), HasSubstr("parallel.pipe, zero.stage: results from step 41 on have "
                                       "other rounding errors"));
  before.run.exactness = now.run.exactness = Exactness::invariant;
  EXPECT_TRUE(consequences({before, now, meta, epoch}, Beginning::restart).empty());
  EXPECT_EQ(after({}, {"run.exactness=invariant", "run.exact_chunk=4"}).size(), 1U);
}

TEST(Consequences, WhatChangesNoNumberHasNone) {
  for (const char* key :
       {"train.skip_window=7", "run.log_every=7", "checkpoint.every_steps=3", "evaluate.patience=9",
        "run.hang_timeout=5", "model.recompute=block", "zero.prefetch=3"})
    EXPECT_THAT(texts_after({}, {key}), IsEmpty()) << key;
}

TEST(Consequences, ANewRunFromWeightsIsToldOnlyWhatConcernsThem) {
  const auto from = Beginning::from_weights;
  EXPECT_THAT(texts_after({}, {"train.batch=8", "train.seed=3", "optimizer.clip=0"}, from),
              IsEmpty());
  // After 40 of 40 steps of a linear decay, the last rate is 1/40 of the peak.
  EXPECT_THAT(texts_after({"schedule.shape=linear", "train.steps=40"}, {}, from),
              ElementsAre(HasSubstr("the learning rate was 2.5e-05 in the last step of the initial "
                                    "model, and its peak is now 0.001")));
  // The same deck begins at the peak again.
  EXPECT_THAT(texts_after({"schedule.shape=linear"}, {"schedule.shape=linear"}, from),
              ElementsAre("optimizer.lr: the learning rate was 0.00061 in the last step of the "
                          "initial model, and its peak is now 0.001"));
  EXPECT_THAT(texts_after({}, {"model.context=16"}, from),
              ElementsAre("model.context: samples have 16 tokens instead of 8"));
}

}  // namespace
}  // namespace trireme
