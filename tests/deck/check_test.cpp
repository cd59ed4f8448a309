#include "lib/deck/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lib/deck/resolve.hpp"
#include "tests/deck/problems.hpp"
#include "tests/support/source_dir.hpp"

namespace trireme {

TEST(Check, TheLeastDeckIsSound) {
  EXPECT_TRUE(check_deck(sound()).empty());
}

TEST(Check, Data) {
  Deck d = sound();
  d.data.path.clear();
  expect_problem(d, "data.path", "is missing");
  d = sound();
  d.data.weights = {1, 2};
  expect_problem(d, "data.weights", "has 2 entries, but data.path has 1");
  d.data.weights.clear();
  d.data.loss_weights = {1, 2};
  expect_problem(d, "data.loss_weights", "has 2 entries, but data.path has 1");
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
    expect_problem(d, "validation.name#1", "give a name of at most 100 letters, digits");
  }
  d.data.sets[1].name = "code";
  expect_problem(d, "validation.name#1", "two [[validation]] sets have the name \"code\"");
  d.data.sets[1] = {"empty", {}};
  expect_problem(d, "validation.path#1", "\"empty\" has no path");
  d.data.sets[1].path = {"b.tokens", d.data.path[0]};
  expect_problem(d, "validation.path#1", "also in data.path");
}

TEST(Check, MeanOfValidationSets) {
  Deck d = sound();
  d.data.sets = {{"code", {"b.tokens"}, 2}, {"text", {"c.tokens"}}};
  EXPECT_TRUE(check_deck(d).empty());
  d.evaluate.best_set = "mean";
  EXPECT_TRUE(check_deck(d).empty());
  d.data.sets[0].weight = 0;
  expect_problem(d, "evaluate.best_set", "none of them has a weight");
  d.data.sets.clear();
  expect_problem(d, "evaluate.best_set", "is not the name of a [[validation]] set");
  d = sound();
  d.data.sets = {{"mean", {"b.tokens"}}};
  expect_problem(d, "validation.name", "reserved for the weighted mean");
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

static Deck sound_in_fp8() {
  Deck d = sound();
  d.precision.compute = DType::bf16;
  d.precision.products = ProductType::fp8;
  return d;
}

TEST(Check, WhichProductsAreInFp8) {
  Deck d = sound_in_fp8();
  d.precision.fp8_skip_first = d.model.layers - 1;
  EXPECT_TRUE(check_deck(d).empty());
  d.precision.fp8_skip_last = 1;
  expect_problem(d, "precision.fp8_skip_first", "leave none of the");
  d.precision.fp8_head = true;
  d.model.vocab = 32;
  EXPECT_TRUE(check_deck(d).empty());
  d.precision.fp8_except = {"head.weight"};  // the embedding, where the head is tied
  d.model.tied = false;
  EXPECT_TRUE(check_deck(d).empty());
  d.precision.fp8_except = {};
  d.model.vocab = 33;
  expect_problem(d, "precision.fp8_head", "set model.vocab = 48");
  d = sound();
  d.precision.fp8_head = true;
  expect_problem(d, "precision.fp8_head", "no effect without");
}

TEST(Check, GathersInFp8) {
  Deck d = sound_in_fp8();
  d.zero.gather_type = GatherType::fp8;
  expect_problem(d, "zero.gather_type", "needs zero.stage 1, 2 or 3");
  d.zero.stage = 1;
  EXPECT_TRUE(check_deck(d).empty());
  d.adapter.rank = 2;
  EXPECT_TRUE(check_deck(d).empty());
  d.adapter.base = BaseType::bf16;
  EXPECT_TRUE(check_deck(d).empty());
  d.adapter.base = BaseType::nf4;
  expect_problem(d, "zero.gather_type", "no weight can be sent in fp8");
  d.precision.products = ProductType::compute;
  expect_problem(d, "zero.gather_type", "needs precision.products = \"fp8\"");
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

TEST(Check, KeysOfOptimizersOfMatrices) {
  const auto refused = [](OptimizerKind name, const std::string& key, auto set) {
    Deck d = sound();
    d.optimizer.name = name;
    EXPECT_TRUE(check_deck(d).empty());
    set(d.optimizer);
    expect_problem(
        d, "optimizer." + key,
        fmt::format("optimizer.{} has no effect with optimizer.name = \"{}\"", key, name_of(name)));
  };
  using O = OptimizerConfig;
  for (const auto name : {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lion}) {
    refused(name, "matrix_momentum", [](O& o) { o.matrix_momentum = 0.9; });
    refused(name, "matrix_nesterov", [](O& o) { o.matrix_nesterov = false; });
    refused(name, "matrix_scale", [](O& o) { o.matrix_scale = MatrixScale::adamw; });
    refused(name, "matrix_heads", [](O& o) { o.matrix_heads = HeadMatrices::each; });
    refused(name, "adamw_lr", [](O& o) { o.adamw_lr = 1; });
    refused(name, "adamw_weight_decay", [](O& o) { o.adamw_weight_decay = 0; });
    refused(name, "adamw_patterns", [](O& o) { o.adamw_patterns = {"*"}; });
  }
  for (const auto name : {OptimizerKind::adamw, OptimizerKind::shampoo})
    refused(name, "muon_polynomials",
            [](O& o) { o.muon_polynomials = MuonPolynomials::polar_express; });
  for (const auto name : {OptimizerKind::adamw, OptimizerKind::muon}) {
    refused(name, "shampoo_beta", [](O& o) { o.shampoo_beta = 0.9; });
    refused(name, "shampoo_eps", [](O& o) { o.shampoo_eps = 1e-3; });
    refused(name, "shampoo_every", [](O& o) { o.shampoo_every = 1; });
  }
  Deck d = sound();
  d.optimizer.name = OptimizerKind::muon;
  d.optimizer.momentum = 0.9;
  expect_problem(d, "optimizer.momentum", "muon and shampoo use optimizer.matrix_momentum");
}

TEST(Check, NesterovMomentumOfEachOptimizer) {
  Deck d = sound();
  d.optimizer.nesterov = true;
  for (const auto name :
       {OptimizerKind::adamw, OptimizerKind::lion, OptimizerKind::muon, OptimizerKind::shampoo}) {
    d.optimizer.name = name;
    expect_problem(d, "optimizer.nesterov", "muon and shampoo use optimizer.matrix_nesterov");
  }
  d.optimizer.name = OptimizerKind::sgd;
  expect_problem(d, "optimizer.nesterov", "give optimizer.momentum, such as 0.9");
  d.optimizer.momentum = 0.9;
  EXPECT_TRUE(check_deck(d).empty());
}

TEST(Check, RatesBesideThoseOfMatrices) {
  Deck d = sound();
  d.optimizer.name = OptimizerKind::muon;
  d.optimizer.adamw_lr = 3e-4;
  EXPECT_TRUE(check_deck(d).empty());
  d.optimizer.lr = 0;
  expect_problem(d, "optimizer.adamw_lr", "needs optimizer.lr above 0");
  d.optimizer.adamw_lr.reset();
  EXPECT_TRUE(check_deck(d).empty());
}

TEST(Check, PatternsNameMatrices) {
  Deck d = sound();
  d.optimizer.name = OptimizerKind::shampoo;
  d.optimizer.adamw_patterns = {"embedding.*", "blocks.0.*"};
  EXPECT_TRUE(check_deck(d).empty());
  d.optimizer.adamw_patterns = {"blocks.99.*"};
  expect_problem(d, "optimizer.adamw_patterns", "\"blocks.99.*\" matches no matrix");
  d.optimizer.adamw_patterns = {"*.bias"};
  expect_problem(d, "optimizer.adamw_patterns", "\"*.bias\" matches no matrix");
  d.optimizer.adamw_patterns = {"*"};
  expect_problem(d, "optimizer.adamw_patterns", "leaves no matrix to optimizer.name = \"shampoo\"");
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
