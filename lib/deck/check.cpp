#include "lib/deck/check.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/fixed.hpp"
#include "lib/comm/grid.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/deck/rules.hpp"
#include "lib/keys/key.hpp"
#include "lib/pipe/partition.hpp"
#include "lib/pipe/schedule.hpp"
#include "lib/run/schedule.hpp"
#include "lib/run/skip_rules.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

// Returns the batches of train.batch_ramp, or nothing if the key has an error.
static std::vector<std::int64_t> smaller_batches(const TrainConfig& t) {
  try {
    auto batches = batches_of(t);
    batches.pop_back();
    return batches;
  } catch (const Error&) {
    return {};
  }
}

GridLimits limits_of(const Deck& deck) {
  return {.layers = deck.model.layers,
          .tokens = deck.data.context,
          .batch = deck.train.batch,
          .smaller_batches = smaller_batches(deck.train),
          .microbatch = deck.train.microbatch,
          .shard = deck.zero.shard,
          .experts = deck.model.experts};
}

namespace {

class Checker : DeckRules {
 public:
  using DeckRules::DeckRules;

  void all() {
    model_rules(deck_, problems_);
    data_rules(deck_, problems_);
    train();
    optimizer_rules(deck_, problems_);
    precision_rules(deck_, problems_);
    parallel();
    run();
    objective_rules(deck_, problems_);
    evaluation_rules(deck_, problems_);
    if (problems_.empty()) pattern_rules(deck_, problems_);
  }

 private:
  void train() {
    const TrainConfig& t = deck_.train;
    const int lengths = (t.steps > 0) + (t.tokens > 0) + (t.epochs > 0);
    rule(lengths <= 1, {"train.steps", "train.tokens", "train.epochs"},
         "the deck sets more than one of train.steps, train.tokens and train.epochs; keep one");
    rule(lengths > 0, {"train.steps", "train.tokens", "train.epochs"},
         "the length of the run is missing; give train.steps, train.tokens or train.epochs");
    // This rule only prevents overflow, because the deck of a checkpoint must stay readable.
    // require_countable() limits what one run may count.
    constexpr std::int64_t most = std::int64_t{1} << 62;
    rule(t.steps <= most / t.batch, {"train.steps", "train.batch"},
         "train.steps = {} with train.batch = {} means more than 2^62 samples; lower one of them",
         t.steps, t.batch);
    rule(t.rollback <= t.max_skipped, {"train.rollback", "train.max_skipped"},
         "train.rollback = {} is above train.max_skipped = {}, so the run would fail first; lower "
         "train.rollback, or raise train.max_skipped",
         t.rollback, t.max_skipped);
    const CheckpointConfig& c = deck_.checkpoint;
    rule(t.rollback == 0 || c.every_steps > 0, {"train.rollback", "checkpoint.every_steps"},
         "train.rollback needs checkpoints at multiples of checkpoint.every_steps, which is 0: set "
         "checkpoint.every_steps");
    try {
      static_cast<void>(parse_step_ranges(t.skip_steps));
    } catch (const Error& e) {
      rule(false, {"train.skip_steps"}, "train.skip_steps: {}", e.what());
    }
    try {
      const auto parts = parse_batch_ramp(t.batch_ramp);
      rule(parts.empty() || parts.back().batch < t.batch, {"train.batch_ramp", "train.batch"},
           "train.batch_ramp reaches a batch of {}, but train.batch, the batch after the ramp, is "
           "{}; set train.batch to a larger number",
           parts.empty() ? 0 : parts.back().batch, t.batch);
    } catch (const Error& e) {
      rule(false, {"train.batch_ramp"}, "train.batch_ramp: {}", e.what());
    }
    rates();
  }

  // Rules for the learning rate schedule.
  void rates() {
    const ScheduleConfig& s = deck_.schedule;
    const bool in_steps = s.warmup_steps > 0 || s.decay_steps > 0 || !s.decay_end_steps.empty();
    rule(!in_steps || !counts_tokens(s),
         {"schedule.warmup_steps", "schedule.decay_steps", "schedule.decay_end_steps",
          "schedule.warmup_tokens", "schedule.decay_tokens", "schedule.decay_end_tokens"},
         "[schedule] has lengths in steps and in tokens; give all of them in steps "
         "(warmup_steps, decay_steps, decay_end_steps) or all in tokens (warmup_tokens, "
         "decay_tokens, decay_end_tokens)");
    const std::string unit = counts_tokens(s) ? "tokens" : "steps",
                      ends_key = "schedule.decay_end_" + unit;
    const auto& ends = decay_ends_of(s);
    rule(ends.empty() || s.shape == ScheduleShape::wsd, {ends_key, "schedule.shape"},
         "{} needs schedule.shape = \"wsd\", but it is \"{}\"", ends_key, name_of(s.shape));
    rule(std::ranges::adjacent_find(ends, std::greater_equal()) == ends.end(), {ends_key},
         "{} is not in increasing order", ends_key);
    rule(ends.empty() || ends.front() > warmup_of(s), {ends_key, "schedule.warmup_" + unit},
         "{0} begins with {1}, but the warmup lasts {2} {3}; the first decay must end later",
         ends_key, ends.empty() ? 0 : ends.front(), warmup_of(s), unit);
    rule(ends.empty() || deck_.evaluate.patience == 0, {ends_key, "evaluate.patience"},
         "{} cannot be combined with evaluate.patience, because the loss rises again after each "
         "decay; remove evaluate.patience",
         ends_key);
    rule(deck_.schedule.min_lr <= deck_.optimizer.lr, {"schedule.min_lr", "optimizer.lr"},
         "schedule.min_lr = {} is above optimizer.lr = {}; lower schedule.min_lr",
         number_text(deck_.schedule.min_lr), number_text(deck_.optimizer.lr));
  }

  void parallel() {
    const ParallelConfig& p = deck_.parallel;
    for (auto& problem : grid_problems(grid_of(deck_), limits_of(deck_))) {
      problems_.push_back({std::move(problem.keys), std::move(problem.message)});
    }
    zero();
    schedule();
    if (p.stage_layers.empty()) return;
    std::string fault = stage_layers_fault(p.stage_layers, deck_.model.layers, p.pipe, p.chunks);
    if (fault.empty()) return;
    problems_.push_back(
        {{"parallel.stage_layers", "parallel.chunks", "parallel.pipe", "model.layers"},
         std::move(fault)});
  }

  void schedule() {
    const ParallelConfig& p = deck_.parallel;
    const auto micro = deck_.train.microbatch;
    auto batches = smaller_batches(deck_.train);
    batches.push_back(deck_.train.batch);
    std::string fault;
    for (const auto batch : batches) {
      std::int64_t microbatches = 0;  // not known yet
      if (micro > 0 && p.data > 0 && batch % (micro * p.data) == 0)
        microbatches = batch / (micro * p.data);
      if (fault.empty()) fault = pipeline_fault(p.schedule, p.pipe, p.chunks, microbatches);
    }
    rule(fault.empty(),
         {"parallel.schedule", "parallel.chunks", "train.microbatch", "train.batch",
          "train.batch_ramp", "parallel.pipe"},
         "{}", fault);
    rule(p.chunks == 1 || p.pipe * p.chunks <= deck_.model.layers,
         {"parallel.chunks", "parallel.pipe", "model.layers"},
         "parallel.pipe = {} with parallel.chunks = {} needs {} blocks, one per chunk, but "
         "model.layers is {}: lower parallel.pipe or parallel.chunks",
         p.pipe, p.chunks, p.pipe * p.chunks, deck_.model.layers);
  }

  void zero() {
    const ZeroSection& z = deck_.zero;
    const bool step = z.gather == ZeroCadence::step || z.reduce == ZeroCadence::step;
    rule(z.stage == 3 || !step, {"zero.gather", "zero.reduce", "zero.stage"},
         "zero.gather = \"step\" and zero.reduce = \"step\" need zero.stage = 3, but the stage is "
         "{}: remove zero.gather and zero.reduce",
         z.stage);
    const bool shards = z.shard > 1 || z.copy_each_node;
    rule(z.stage > 0 || !shards, {"zero.shard", "zero.stage"},
         "zero.shard = {} needs zero.stage 1, 2 or 3: stage 0 shards nothing",
         z.copy_each_node ? "\"node\"" : std::to_string(z.shard));
    if (z.gather_type == GatherType::compute) return;
    rule(deck_.precision.products == ProductType::fp8, {"zero.gather_type", "precision.products"},
         "zero.gather_type = \"fp8\" needs precision.products = \"fp8\": only weights whose "
         "products are in fp8 are sent in fp8");
    rule(z.stage > 0, {"zero.gather_type", "zero.stage"},
         "zero.gather_type = \"fp8\" needs zero.stage 1, 2 or 3: stage 0 gathers no weights");
  }

  void run() {
    const auto& t = deck_.run.trace_steps;
    rule(t.empty() || (t.size() == 2 && t[0] <= t[1]), {"run.trace_steps"},
         "run.trace_steps must be the first and the last step to trace, such as [10, 12]");
    const auto& p = deck_.parallel;
    const auto ranks = p.pipe * p.data * p.seq;  // 0: not known yet
    for (const auto r : deck_.run.trace_ranks)
      rule(ranks == 0 || r < ranks, {"run.trace_ranks"},
           "run.trace_ranks names rank {}, but the last rank is {}", r, ranks - 1);
    if (deck_.run.exactness == Exactness::invariant) exact();
    for (const auto& f : deck_.freeze) {
      rule(!f.pattern.empty(), {"freeze.pattern"},
           "freeze.pattern is missing; give a pattern of parameter names, such as \"blocks.0.*\"");
      rule(f.to_step == 0 || f.to_step > f.from_step, {"freeze.to_step", "freeze.from_step"},
           "[[freeze]] of '{}' has to_step = {}, which is not above from_step = {}; to_step = 0 "
           "freezes to the end of the run",
           f.pattern, f.to_step, f.from_step);
    }
  }

  void exact() {
    const auto chunk = exact_chunk(deck_), tokens = deck_.data.context / deck_.parallel.seq;
    rule(deck_.precision.compute != DType::f64, {"run.exactness", "precision.compute"},
         "run.exactness = \"invariant\" does not support f64, because its sums are rounded to "
         "multiples of 2^-50: set precision.compute = \"f32\" or \"bf16\"");
    rule(deck_.run.backend != "cuda", {"run.exactness", "run.backend"},
         "run.exactness = \"invariant\" needs run.backend = \"host\" or \"ref\": on GPUs, "
         "bit-identical results on all grids are not guaranteed");
    rule(tokens % chunk == 0, {"run.exact_chunk", "parallel.seq", "model.context"},
         "run.exact_chunk = {} does not divide the {} tokens of a sample on each rank "
         "(model.context / parallel.seq); values that do: {}. Results depend on this value, so use "
         "the same one on all grids",
         chunk, tokens, legal_text(divisors(tokens), chunk));
    const auto at_once = deck_.train.chunk_tokens.value_or(0);
    rule(at_once % chunk == 0, {"model.chunk_tokens", "run.exact_chunk"},
         "model.chunk_tokens = {} is not a multiple of run.exact_chunk = {}: set "
         "model.chunk_tokens to {} or another multiple, or remove it",
         at_once, chunk, (at_once + chunk - 1) / chunk * chunk);
    rule(!deck_.data.has_validation() || deck_.train.microbatch <= fixed::loss_terms / tokens,
         {"run.exactness", "train.microbatch"},
         "run.exactness = \"invariant\" evaluates at most {} tokens per micro-batch on each rank, "
         "not {} samples of {} tokens; lower train.microbatch",
         fixed::loss_terms, deck_.train.microbatch, tokens);
  }
};

}  // namespace

std::vector<DeckProblem> check_deck(const Deck& deck) {
  std::vector<DeckProblem> problems;
  Checker(deck, problems).all();
  return problems;
}

std::int64_t exact_chunk(const Deck& d) {
  if (d.run.exactness != Exactness::invariant) return 0;
  return std::min(d.run.exact_chunk, d.data.context);
}

}  // namespace trireme
