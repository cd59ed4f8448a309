#include "lib/deck/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lib/deck/resolve.hpp"
#include "tests/deck/sample.hpp"
#include "tests/support/source_dir.hpp"

namespace trireme {
namespace {

Deck sound() {
  return parsed(least_deck);
}

// The only problem of a deck, by its first key and its words.
void expect_problem(const Deck& deck, const std::string& key, const std::string& words) {
  const auto problems = check_deck(deck);
  ASSERT_EQ(problems.size(), 1U) << key;
  EXPECT_EQ(problems[0].keys.at(0), key);
  EXPECT_NE(problems[0].message.find(words), std::string::npos) << problems[0].message;
}

}  // namespace

TEST(Check, TheLeastDeckIsSound) {
  EXPECT_TRUE(check_deck(sound()).empty());
}

TEST(Check, Heads) {
  Deck d = sound();
  d.model.heads = 10;
  d.model.kv_heads = 10;
  d.model.head_dim = 0;
  expect_problem(d, "model.heads", "heads that do: 1, 2, 3, 4, 6, 8, 12, 16");

  d = sound();
  d.model.width = 36;
  d.model.head_dim = 3;
  d.model.positions = Positions::rotary;
  expect_problem(d, "model.head_dim", "each head has 3; give an even model.head_dim");
  d.model.heads = d.model.kv_heads = 7;
  d.model.head_dim = 0;
  expect_problem(d, "model.heads", "heads that do: 1, 2, 3, 6, 9, 18");  // all of even head dim

  d = sound();
  d.model.kv_heads = 5;
  expect_problem(d, "model.kv_heads", "that do: 1, 2, 3, 4, 6, 12");

  d = sound();
  d.model.heads = d.model.kv_heads = 1 << 14;
  d.model.head_dim = 1 << 11;
  expect_problem(d, "model.head_dim", "16384 heads with model.head_dim = 2048 have more than");
}

TEST(Check, PositionsOfTheModel) {
  Deck d = sound();
  d.model.max_context = d.data.context - 1;
  expect_problem(d, "model.max_context",
                 "model.max_context = 1023 is less than model.context = 1024: raise the first");
  d.model.max_context = d.data.context + 1;
  EXPECT_TRUE(check_deck(d).empty());
}

TEST(Check, RotaryScaling) {
  Deck d = sound();
  d.model.rope_scaling = RopeScaling::linear;
  expect_problem(d, "model.rope_scaling", "needs model.positions = \"rotary\"");
  d.model.positions = Positions::rotary;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rope_scaling = RopeScaling::none;
  d.model.rope_factor = 8;
  expect_problem(d, "model.rope_factor", "model.rope_factor = 8 needs model.rope_scaling");
  d.model.rope_scaling = RopeScaling::llama3;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rope_low_freq_factor = 4;
  expect_problem(d, "model.rope_high_freq_factor",
                 "model.rope_high_freq_factor = 4 is not above model.rope_low_freq_factor = 4");
  d.model.rope_scaling = RopeScaling::yarn;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rope_beta_slow = 32;
  expect_problem(d, "model.rope_beta_fast",
                 "model.rope_beta_fast = 32 is not above model.rope_beta_slow = 32");
  d.model.rope_scaling = RopeScaling::linear;
  EXPECT_TRUE(check_deck(d).empty());
  EXPECT_NE(refusal_of_addition("[model]\nrope_factor = 0.5\n").find("d.toml:6:15: "),
            std::string::npos);
}

TEST(Check, KeysOfExpertsNeedThem) {
  const auto alone = [](const char* key, auto give) {
    Deck d = sound();
    give(d);
    expect_problem(d, key, std::string(key) + " needs model.experts: set that");
  };
  alone("model.experts_per_token", [](Deck& d) { d.model.experts_per_token = 2; });
  alone("model.expert_width", [](Deck& d) { d.model.expert_width = 8; });
  alone("model.shared_expert_width", [](Deck& d) { d.model.shared_expert_width = 8; });
  alone("model.expert_bias", [](Deck& d) { d.model.expert_bias = true; });
  alone("model.dense_layers", [](Deck& d) { d.model.dense_layers = {0}; });
  alone("model.router", [](Deck& d) { d.model.router = RouterScores::sigmoid; });
  alone("model.norm_topk", [](Deck& d) { d.model.norm_topk = false; });
  alone("train.balance", [](Deck& d) { d.train.balance = Balance::sample; });
  alone("train.router_z", [](Deck& d) { d.train.router_z = 0.1; });
  alone("parallel.expert_tokens", [](Deck& d) { d.parallel.expert_tokens = 16; });
  alone("parallel.expert", [](Deck& d) { d.parallel.expert = 2; });
  Deck d = sound();
  d.model.shared_expert_gate = true;
  expect_problem(d, "model.shared_expert_gate", "set model.shared_expert_width");
}

TEST(Check, Windows) {
  Deck d = sound();
  d.model.window_layers = {1};
  expect_problem(d, "model.window_layers", "model.window_layers needs model.window: set that");
  d.model.window = 64;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.window_layers = {12, 1};
  expect_problem(d, "model.window_layers",
                 "names block 12, but with model.layers = 12 the last block is 11");
  d.model.window_layers = {3, 1, 3};
  expect_problem(d, "model.window_layers", "names a block twice");
  d.model.window_layers = {};
  d.model.window = 100000;  // more than a context has
  EXPECT_TRUE(check_deck(d).empty());
}

TEST(Check, RotaryPositionsInPart) {
  Deck d = sound();
  d.model.nope_layers = {1};
  expect_problem(d, "model.nope_layers", "model.nope_layers needs model.positions = \"rotary\"");
  d.model.positions = Positions::rotary;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.nope_layers = {1, 12};
  expect_problem(d, "model.nope_layers",
                 "names block 12, but with model.layers = 12 the last block is 11");
  d.model.nope_layers = {2, 2};
  expect_problem(d, "model.nope_layers", "names a block twice");

  d = sound();
  d.model.rotary_dim = 32;
  expect_problem(d, "model.rotary_dim", "model.rotary_dim needs model.positions = \"rotary\"");
  d.model.positions = Positions::rotary;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rotary_dim = 33;
  expect_problem(d, "model.rotary_dim", "is odd, but channels rotate in pairs");
  d.model.rotary_dim = 64;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rotary_dim = 66;
  expect_problem(d, "model.rotary_dim", "= 66 is more than the 64 channels of a head");
}

TEST(Check, EmbeddingsHaveOneFactor) {
  Deck d = sound();
  d.model.embedding_scale = 12;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.scale_embedding = true;
  expect_problem(d, "model.embedding_scale", "both multiply embeddings: remove one of them");
}

TEST(Check, Experts) {
  Deck sparse = sound();
  sparse.model.activation = ActivationKind::swiglu;
  sparse.model.experts = 5;
  sparse.model.experts_per_token = 2;
  sparse.model.expert_width = 8;
  ASSERT_TRUE(check_deck(sparse).empty());

  const auto refused = [&](const char* key, const std::string& words, auto change) {
    Deck d = sparse;
    change(d);
    expect_problem(d, key, words);
  };
  for (const int k : {0, 6})
    refused("model.experts_per_token", "is not between 1 and model.experts = 5: give the number",
            [k](Deck& d) { d.model.experts_per_token = k; });
  refused("model.activation", "experts need a gated activation",
          [](Deck& d) { d.model.activation = ActivationKind::gelu; });
  refused("model.expert_bias", "the router of \"sigmoid\" already has a bias", [](Deck& d) {
    d.model.expert_bias = true;
    d.model.router = RouterScores::sigmoid;
  });
  refused("model.dense_layers", "names block 12, but with model.layers = 12 the last block is 11",
          [](Deck& d) {
            d.model.dense_layers = {11, 12};
          });
  refused("model.dense_layers", "names a block twice", [](Deck& d) {
    d.model.dense_layers = {3, 1, 3};
  });
  refused("model.dense_layers", "model.dense_layers names all blocks, so no block has experts",
          [](Deck& d) {
            for (int layer = 0; layer < 12; ++layer) d.model.dense_layers.push_back(layer);
          });
  refused("parallel.expert_tokens", "parallel.expert_tokens needs expert parallelism",
          [](Deck& d) { d.parallel.expert_tokens = 16; });
  refused("train.balance", "needs model.router = \"sigmoid\"",
          [](Deck& d) { d.train.balance = Balance::bias; });
  refused("train.balance_weight", "needs train.balance = \"sample\"",
          [](Deck& d) { d.train.balance_weight = 0.5; });
  refused("train.balance_rate", "needs train.balance = \"bias\"",
          [](Deck& d) { d.train.balance_rate = 0.5; });
  refused("parallel.expert", "parallel.expert = 6 is more than model.experts = 5",
          [](Deck& d) { d.parallel.expert = 6; });

  Deck biased = sparse;
  biased.model.expert_bias = true;
  biased.model.activation = ActivationKind::swiglu_clamped;
  EXPECT_TRUE(check_deck(biased).empty());

  sparse.model.dense_layers = {11, 0};
  sparse.train.balance = Balance::sample;
  sparse.train.balance_weight = 0.5;
  EXPECT_TRUE(check_deck(sparse).empty());
  sparse.model.router = RouterScores::sigmoid;
  EXPECT_TRUE(check_deck(sparse).empty());
  sparse.train.balance_weight = TrainConfig{}.balance_weight;
  sparse.train.balance = Balance::bias;
  sparse.train.balance_rate = 0.5;
  EXPECT_TRUE(check_deck(sparse).empty());
}

TEST(Check, Data) {
  Deck d = sound();
  d.data.path.clear();
  expect_problem(d, "data.path", "is missing");
  d = sound();
  d.data.weights = {1, 2};
  expect_problem(d, "data.weights", "has 2 entries, but data.path has 1");
  d = sound();
  d.data.validation_files = d.data.path;
  expect_problem(d, "data.validation", "also in data.path");
}

TEST(Check, ValidationSets) {
  Deck d = sound();
  d.data.sets = {{"code", {"b.tokens"}}, {"old-code_2", {"b.tokens", "c.tokens"}}};
  EXPECT_TRUE(check_deck(d).empty());
  for (const char* wrong : {"", "a.b", "a/b", "a b", "\n", "ä"}) {
    d.data.sets[1].name = wrong;
    expect_problem(d, "validation.name#1", "give a name of letters, digits, _ and -");
  }
  d.data.sets[1].name = "code";
  expect_problem(d, "validation.name#1", "two [[validation]] sets have the name \"code\"");
  d.data.sets[1] = {"empty", {}};
  expect_problem(d, "validation.path#1", "\"empty\" has no path");
  d.data.sets[1].path = {"b.tokens", d.data.path[0]};
  expect_problem(d, "validation.path#1", "also in data.path");
}

TEST(Check, LengthAndBatch) {
  Deck d = sound();
  d.train.tokens = 5;
  expect_problem(d, "train.steps", "keep one");
  d.train.tokens = d.train.steps = 0;
  expect_problem(d, "train.steps", "length of the run is missing");
  d = sound();
  d.train.batch = 12;
  d.train.microbatch = 5;
  expect_problem(d, "train.microbatch", "microbatches that do: 1, 2, 3, 4, 6, 12");
  d.parallel.data = 2;
  d.train.microbatch = 4;
  expect_problem(d, "train.microbatch", "6 samples of a data rank");
  d.parallel.data = 5;
  expect_problem(d, "train.batch", "batches that are: 20;");  // of 5 ranks' whole microbatches
  d.train.microbatch = 0;
  expect_problem(d, "train.batch", "batches that are: 10, 15;");
}

TEST(Check, ScheduleAndPrecision) {
  Deck d = sound();
  d.schedule.min_lr = 1;
  expect_problem(d, "schedule.min_lr", "above optimizer.lr = 3e-4");
  d = sound();
  d.precision.compute = d.precision.reduce = DType::f64;
  expect_problem(d, "precision.compute", "run.backend = \"ref\"");
  d.run.backend = "ref";
  d.precision.reduce = DType::f32;
  expect_problem(d, "precision.reduce", "cannot be combined with");
}

TEST(Check, ProductsInFp8) {
  Deck d = sound();
  d.precision.products = ProductType::fp8;
  expect_problem(d, "precision.products", "needs precision.compute = \"bf16\", not \"f32\"");
  d.precision.compute = DType::bf16;
  EXPECT_TRUE(check_deck(d).empty());
  d.precision.fp8_except = {"blocks.0.*"};
  EXPECT_TRUE(check_deck(d).empty());
  d.precision.fp8_except = {"head*"};
  expect_problem(d, "precision.fp8_except", "\"head*\" matches no weight whose products");
  d.precision.fp8_except = {};
  d.data.context = 40;
  expect_problem(d, "precision.products", "a multiple of 16 tokens");
  d.data.context = 48;
  d.train.chunk_tokens = 24;
  expect_problem(d, "precision.products", "in model.chunk_tokens, not 24");
  d.train.chunk_tokens = 0;
  d.model.ffn_width = 200;
  expect_problem(d, "precision.products", "model.ffn_width gives a width of 200");
  d = sound();
  d.precision.fp8_except = {"blocks.0.*"};
  expect_problem(d, "precision.fp8_except", "no effect without");
}

TEST(Check, PackedDocumentsDoNotSeeEachOther) {
  Deck d = sound();
  d.data.packing = Packing::documents;
  expect_problem(d, "data.packing",
                 "data.packing = \"documents\" needs data.attention = \"document\": set both");
  d.data.attention = AttentionSpan::document;
  EXPECT_TRUE(check_deck(d).empty());
  d.data.long_documents = LongDocuments::refuse;
  EXPECT_TRUE(check_deck(d).empty());
  d.data.packing = Packing::windows;
  expect_problem(d, "data.long_documents", "needs data.packing = \"documents\"");
}

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

TEST(Check, Grid) {
  Deck d = sound();
  d.parallel.pipe = 13;
  expect_problem(d, "parallel.pipe", "more than model.layers = 12");
  d = sound();
  d.parallel.seq = 3;
  expect_problem(d, "parallel.seq", "does not divide model.context = 1024; degrees that do: 1, 2");
  d = sound();
  d.parallel.pipe = 2;
  d.parallel.stage_layers = {5, 6};
  expect_problem(d, "parallel.stage_layers", "adds up to 11 blocks");
  d.parallel.stage_layers = {5, 6, 1};
  expect_problem(d, "parallel.stage_layers", "has 3 entries");
  d.parallel.stage_layers = {12, 0};
  expect_problem(d, "parallel.stage_layers", "gives stage 1 0 blocks");
}

TEST(Check, Schedules) {
  Deck d = sound();
  d.parallel.pipe = 2;
  d.parallel.schedule = ScheduleKind::interleaved;
  expect_problem(d, "parallel.schedule", "needs parallel.chunks of 2 or more");
  d.parallel.chunks = 3;
  EXPECT_TRUE(check_deck(d).empty());
  d.parallel.stage_layers = {6, 6};
  expect_problem(d, "parallel.stage_layers", "parallel.pipe * parallel.chunks = 6 chunks");
  d.parallel.stage_layers = {1, 2, 3, 1, 2, 3};
  EXPECT_TRUE(check_deck(d).empty());
  d.parallel.stage_layers = {};
  d.parallel.data = 1;
  d.train.batch = 6;
  d.train.microbatch = 2;
  expect_problem(
      d, "parallel.schedule",
      "needs a multiple of parallel.pipe = 2 microbatches per step, but each data rank has 3");
  d.train.microbatch = 3;
  EXPECT_TRUE(check_deck(d).empty());
  d.parallel.chunks = 7;
  expect_problem(d, "parallel.chunks", "needs 14 blocks, one per chunk, but model.layers is 12");
  for (const auto other : {ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble}) {
    d.parallel.schedule = other;
    d.parallel.chunks = 2;
    expect_problem(d, "parallel.schedule",
                   "use \"interleaved\" or \"zbv\", or remove parallel.chunks");
    d.parallel.chunks = 1;
    EXPECT_TRUE(check_deck(d).empty());
  }
}

TEST(Check, TraceAndFreeze) {
  Deck d = sound();
  d.run.trace_steps = {3, 1};
  expect_problem(d, "run.trace_steps", "first and the last");
  d = sound();
  d.parallel.pipe = 2;
  d.parallel.data = 1;
  d.parallel.seq = 2;
  d.run.trace_ranks = {0, 4};
  expect_problem(d, "run.trace_ranks", "names rank 4, but the last rank is 3");
  d.parallel.data = 0;  // not decided yet
  EXPECT_TRUE(check_deck(d).empty());
  d = sound();
  d.freeze = {{.pattern = "a*", .from_step = 5, .to_step = 5}};
  expect_problem(d, "freeze.to_step", "has to_step = 5, which is not above from_step = 5");
}

TEST(Check, PatternsNameParameters) {
  Deck d = sound();
  d.freeze = {{.pattern = "blocks.0.*"}, {.pattern = "blocks.99.*"}};
  expect_problem(d, "freeze.pattern#1", "\"blocks.99.*\" matches no parameter");
  d = sound();
  d.optimizer.no_decay = {"*.bais"};
  expect_problem(d, "optimizer.no_decay", "\"*.bais\" matches no parameter");
}

TEST(Check, QuickStartIsSoundOnItsGrids) {
  Deck d = load_deck(test::source_dir() / "inputs/quickstart.toml");
  for (std::int64_t pipe : {1, 2}) {
    for (std::int64_t data : {1, 2}) {
      for (std::int64_t seq : {1, 2}) {
        d.parallel.pipe = pipe;
        d.parallel.data = data;
        d.parallel.seq = seq;
        const Deck fitted = resolve(d, {.ranks = pipe * data * seq, .vocab = 1});
        EXPECT_EQ(fitted.train.batch % (data * fitted.train.microbatch), 0);
      }
    }
  }
}

TEST(Check, Zero) {
  Deck d = sound();
  d.zero.stage = 2;
  d.zero.gather = ZeroCadence::step;
  expect_problem(d, "zero.gather", "need zero.stage = 3, but the stage is 2");

  d = sound();
  d.parallel.data = 4;
  d.zero.shard = 2;
  expect_problem(d, "zero.shard", "needs zero.stage 1, 2 or 3");
  d.zero.copy_each_node = true;
  expect_problem(d, "zero.shard", "zero.shard = \"node\" needs zero.stage 1, 2 or 3");
}

}  // namespace trireme
