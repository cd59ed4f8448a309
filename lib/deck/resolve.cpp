#include "lib/deck/resolve.hpp"

#include <cmath>
#include <utility>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/limits.hpp"
#include "lib/deck/check.hpp"
#include "lib/deck/microbatch.hpp"
#include "lib/pipe/schedule.hpp"
#include "lib/shard/policy.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

Grid grid_of(const Deck& d) {
  return {static_cast<int>(d.parallel.pipe), static_cast<int>(d.parallel.data),
          static_cast<int>(d.parallel.seq), static_cast<int>(d.parallel.expert)};
}

// Throws Error if the deck breaks a rule on this number of ranks.
static void require_legal(const Deck& deck, std::int64_t ranks) {
  std::string problems;
  for (const auto& problem : check_deck(deck))
    problems += (problems.empty() ? "" : "\n") + problem.message;
  require(problems.empty(), "on {}: {}", counted(ranks, "rank"), problems);
}

// Sets parallel.data and train.microbatch for `ranks` ranks. Throws Error if the deck then breaks a
// rule between keys.
static void fit_to_ranks(Deck& deck, std::int64_t ranks) {
  GridLimits limits = limits_of(deck);
  limits.microbatch = 0;  // may have been chosen for another grid
  deck.parallel.data = fit_grid(grid_of(deck), limits, ranks).data;
  require_legal(deck, ranks);
  decide_microbatch(deck);
  const auto& p = deck.parallel;
  for (const auto batch : batches_of(deck.train)) {
    const auto fault =
        pipeline_fault(p.schedule, p.pipe, p.chunks, batch / (p.data * deck.train.microbatch));
    require(fault.empty(), "on {}: {}", counted(ranks, "rank"), fault);
  }
}

static void resolve_shard(Deck& deck, const DeckContext& s) {
  if (!deck.zero.copy_each_node) return;
  require(s.ranks_of_node > 0,
          "zero.shard = \"node\" depends on the number of ranks per node: give --ranks-per-node "
          "or, to plan, --machine");
  require(s.ranks < s.ranks_of_node || s.ranks % s.ranks_of_node == 0,
          "zero.shard = \"node\" needs the same number of ranks on each node, but {} ranks are not "
          "a multiple of {} ranks per node",
          s.ranks, s.ranks_of_node);
  deck.zero.shard = shard_ranks_within_node(grid_of(deck), s.ranks_of_node);
  deck.zero.copy_each_node = false;
  require_legal(deck, s.ranks);
}

static void resolve_vocab(Deck& deck, std::int64_t needed, std::int64_t ranks) {
  auto& vocab = deck.model.vocab;
  if (vocab == 0) vocab = needed;
  expect(vocab > 0, "the token files or the deck say how large the vocabulary is");
  require(vocab >= needed,
          "model.vocab = {} is too small, because the token files have ids up to {}: remove "
          "model.vocab, or tokenize with the model's tokenizer",
          vocab, needed - 1);
  if (deck.precision.fp8_head) require_legal(deck, ranks);
}

Deck resolve(Deck deck, const DeckContext& s) {
  fit_to_ranks(deck, s.ranks);
  resolve_vocab(deck, s.vocab, s.ranks);
  resolve_shard(deck, s);
  return deck;
}

Deck on_one_rank(Deck d, std::int64_t vocab) {
  d.parallel = {};
  d.zero = {};
  d.run.trace_ranks = {};  // they refer to another grid
  return resolve(std::move(d), {.vocab = vocab});
}

Deck to_search(const Deck& d, std::int64_t vocab) {
  auto alone = on_one_rank(d, vocab);
  alone.parallel.expert_tokens = d.parallel.expert_tokens;
  alone.zero.gather_type = d.zero.gather_type;
  alone.zero.prefetch = d.zero.prefetch;
  alone.zero.scatters = d.zero.scatters;
  alone.zero.detect_freeze = d.zero.detect_freeze;
  return alone;
}

SettingsToReset set_by(const Deck& d) {
  const ParallelConfig& p = d.parallel;
  const ZeroSection& z = d.zero;
  return {.stage_layers = !p.stage_layers.empty(),
          .shard = z.shard != 0 || z.copy_each_node,
          .schedule = p.schedule != ScheduleKind::one_f_one_b || p.chunks != 1,
          .cadences = z.gather == ZeroCadence::step || z.reduce == ZeroCadence::step,
          .gather_type = z.gather_type != GatherType::compute,
          .expert_tokens = p.expert_tokens};
}

static TrainerSetup setup_of(const Deck& d, DType compute,
                             const std::optional<ModelConfig>& teacher) {
  TrainerSetup s;
  s.model = d.model;
  s.adapter = d.adapter;
  s.context = d.data.context;
  s.dropout = d.train.dropout;
  s.recompute = d.train.recompute;
  s.offload = d.train.offload;
  s.optimizer = d.optimizer;
  s.zero = d.zero;
  s.freeze = d.freeze;
  s.stage_layers = d.parallel.stage_layers;
  s.schedule = d.parallel.schedule;
  s.chunks = static_cast<int>(d.parallel.chunks);
  s.compute = compute;
  s.reduce = d.precision.reduce;
  s.products = d.precision.products;
  s.fp8 = fp8_weights(d.precision);
  s.attention = d.data.attention;
  s.expert_tokens = d.parallel.expert_tokens;
  s.objective = objective_setup(d.train, d.distill, teacher);
  s.balance = d.train.balance;
  s.balance_rate = d.train.balance_rate;
  s.balance_weight = d.train.balance_weight;
  s.router_z = d.train.router_z;
  s.ema = d.train.ema;
  s.seed = static_cast<std::uint64_t>(d.train.seed);
  s.exact_chunk = exact_chunk(d);
  s.chunk_tokens = chunk_tokens_of(d.train, d.data.context / d.parallel.seq, s.exact_chunk);
  s.check_memory = d.run.replay_every > 0;
  return s;
}

Deck with_tokens_for_epochs(Deck d, std::int64_t samples_per_epoch) {
  if (d.train.epochs == 0) return d;
  // 0.28 epochs of 100 samples are 28 samples, although the product is rounded to more.
  constexpr double rounding = 1e-12;
  const double samples =
      std::ceil(d.train.epochs * static_cast<double>(samples_per_epoch) * (1 - rounding));
  const auto tokens = samples * static_cast<double>(d.data.context);
  require(tokens <= static_cast<double>(most_counted),
          "train.epochs = {} of {} samples are more than 2^53 tokens: lower it", d.train.epochs,
          samples_per_epoch);
  d.train.tokens = static_cast<std::int64_t>(tokens);
  d.train.epochs = 0;
  return d;
}

EvaluationRanking ranking_of(const Deck& deck) {
  const auto& e = deck.evaluate;
  const auto& d = deck.data;
  const bool use_first_section = e.best_set.empty() && !d.has_main_set() && !d.sets.empty();
  return {use_first_section ? d.sets.front().name : e.best_set, e.best_by, e.every_steps};
}

PlanInput plan_input_of(const Deck& d, DType compute, TransportKind transport,
                        const std::optional<ModelConfig>& teacher, DocumentWeights weights) {
  PlanInput input;
  input.document_weights = weights;
  input.setup = setup_of(d, compute, teacher);
  input.train = d.train;
  input.grid = grid_of(d);
  input.evaluation = d.data.has_validation() ? PlanEvaluation::included : PlanEvaluation::left_out;
  input.transport = transport;
  input.snapshot = d.checkpoint.async || d.checkpoint.memory_every > 0 ? PlanSnapshot::included
                                                                       : PlanSnapshot::left_out;
  input.copies = d.checkpoint.memory_every > 0 ? PlanCopies::included : PlanCopies::left_out;
  input.headroom = d.run.headroom_bytes();
  return input;
}

}  // namespace trireme
