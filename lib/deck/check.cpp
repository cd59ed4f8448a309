#include "lib/deck/check.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "kernels/fp8.hpp"
#include "lib/base/error.hpp"
#include "lib/base/fixed.hpp"
#include "lib/base/pattern.hpp"
#include "lib/comm/grid.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/deck/rules.hpp"
#include "lib/deck/sections.hpp"
#include "lib/deck/table.hpp"
#include "lib/keys/key.hpp"
#include "lib/model/spec.hpp"
#include "lib/pipe/partition.hpp"
#include "lib/pipe/schedule.hpp"
#include "lib/run/schedule.hpp"
#include "lib/run/skip_rules.hpp"
#include "lib/shard/layout.hpp"
#include "lib/shard/matrices.hpp"
#include "lib/shard/pattern_advice.hpp"
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

std::vector<double> reals_of(const KeyValue& value) {
  if (const auto* all = std::get_if<std::vector<double>>(&value)) return *all;
  if (std::holds_alternative<Automatic>(value)) return {};
  return {std::get<double>(value)};
}

class Checker : DeckRules {
 public:
  using DeckRules::DeckRules;

  void all() {
    model_rules(deck_, problems_);
    data_rules(deck_, problems_);
    train();
    optimizer();
    precision();
    single_precision();
    parallel();
    run();
    objective_rules(deck_, problems_);
    evaluation_rules(deck_, problems_);
    patterns();
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

  void precision() {
    const PrecisionConfig& p = deck_.precision;
    const bool wide_run = p.compute == DType::f64;
    rule(!wide_run || deck_.run.backend == "ref", {"precision.compute", "run.backend"},
         "precision.compute = \"f64\" needs run.backend = \"ref\", the only backend that supports "
         "f64");
    rule(wide_run == (p.reduce == DType::f64), {"precision.reduce", "precision.compute"},
         "precision.reduce = \"{}\" cannot be combined with precision.compute = \"{}\"; set "
         "precision.reduce = \"auto\"",
         name_of(p.reduce), name_of(p.compute));
    if (p.products == ProductType::fp8) fp8_products();
    for (const auto& [key, set] : {std::pair("precision.fp8_except", !p.fp8_except.empty()),
                                   {"precision.fp8_skip_first", p.fp8_skip_first > 0},
                                   {"precision.fp8_skip_last", p.fp8_skip_last > 0},
                                   {"precision.fp8_head", p.fp8_head}})
      rule(p.products == ProductType::fp8 || !set, {key, "precision.products"},
           "{} has no effect without precision.products = \"fp8\"", key);
  }

  // cuBLASLt multiplies in fp8 only if all sizes are multiples of 16.
  void fp8_products() {
    const PrecisionConfig& p = deck_.precision;
    rule(p.compute == DType::bf16, {"precision.products", "precision.compute"},
         "precision.products = \"fp8\" needs precision.compute = \"bf16\", not \"{}\"",
         name_of(p.compute));
    const auto tokens = deck_.data.context / deck_.parallel.seq;
    rule(tokens % fp8::multiple == 0, {"precision.products", "model.context", "parallel.seq"},
         "precision.products = \"fp8\" needs a multiple of {} tokens of a sample on each rank "
         "(model.context / parallel.seq), not {}",
         fp8::multiple, tokens);
    const auto at_once = deck_.train.chunk_tokens.value_or(0);
    rule(at_once % fp8::multiple == 0, {"precision.products", "model.chunk_tokens"},
         "precision.products = \"fp8\" needs a multiple of {} in model.chunk_tokens, not {}",
         fp8::multiple, at_once);
    const ModelConfig m = completed(deck_.model);
    rule(p.fp8_head || p.fp8_skip_first + p.fp8_skip_last < m.layers,
         {"precision.fp8_skip_first", "precision.fp8_skip_last"},
         "precision.fp8_skip_first = {} and precision.fp8_skip_last = {} leave none of the {} "
         "blocks in fp8: lower them, or set precision.products = \"compute\"",
         p.fp8_skip_first, p.fp8_skip_last, m.layers);
    rule(!p.fp8_head || m.vocab % fp8::multiple == 0, {"precision.fp8_head", "model.vocab"},
         "precision.fp8_head = true needs a vocabulary whose size is a multiple of {}, not {}: set "
         "model.vocab = {}, which adds ids that no token has",
         fp8::multiple, m.vocab, fp8::rounded_up(m.vocab, fp8::multiple));
    for (const auto& [key, size] : {std::pair("model.width", m.width),
                                    {"model.head_dim", m.head_dim * m.kv_heads},
                                    {"model.head_dim", m.head_dim * m.heads},
                                    {"model.ffn_width", m.ffn_width},
                                    {"model.shared_expert_width", m.shared_expert_width}})
      rule(size % fp8::multiple == 0, {"precision.products", key},
           "precision.products = \"fp8\" needs layers whose widths are multiples of {}, but {} "
           "gives a width of {}",
           fp8::multiple, key, size);
  }

  // Rejects numbers that f32 rounds to a value outside of their range, or to zero. The host treats
  // all numbers below the smallest normal one as zero.
  void single_precision() {
    if (deck_.precision.compute == DType::f64) return;
    for (const auto& section : deck_sections())
      for (const auto& key : section.keys)
        if (key.rounded_to_f32)
          for (const double x : reals_of(key.access.get(deck_, 0))) {
            const auto rounded = static_cast<float>(x);
            const bool vanishes = x != 0 && rounded < std::numeric_limits<float>::min();
            const bool excluded = key.range->below_max && rounded >= key.range->max;
            rule(!vanishes && !excluded, {key.path()},
                 "{} = {} rounds to {} in f32, the type it is used in: give {}", key.path(),
                 number_text(x), vanishes ? 0 : key.range->max,
                 vanishes ? "1.2e-38 or more" : "at most 0.9999999");
          }
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

  void optimizer() {
    const auto& o = deck_.optimizer;
    rule(o.momentum == 0 || o.name == OptimizerKind::sgd, {"optimizer.momentum"},
         "optimizer.momentum needs optimizer.name = \"sgd\"; adamw and lion use optimizer.betas, "
         "muon and shampoo use optimizer.matrix_momentum");
    rule(
        !o.nesterov || o.name == OptimizerKind::sgd, {"optimizer.nesterov", "optimizer.name"},
        "optimizer.nesterov = true needs optimizer.name = \"sgd\"; adamw and lion have no Nesterov "
        "momentum, muon and shampoo use optimizer.matrix_nesterov, which is true by default");
    rule(!o.nesterov || o.momentum > 0 || o.name != OptimizerKind::sgd,
         {"optimizer.nesterov", "optimizer.momentum"},
         "optimizer.nesterov = true needs momentum: give optimizer.momentum, such as 0.9");
    matrices();
  }

  // Rules for the keys of optimizers that see matrices.
  void matrices() {
    const auto& o = deck_.optimizer;
    const OptimizerConfig unset;
    struct Setting {
      const char* key;
      bool set, used;
    };
    const bool whole = sees_matrices(o.name), by_shampoo = o.name == OptimizerKind::shampoo;
    for (const auto& [key, set, used] :
         {Setting{"optimizer.matrix_momentum", o.matrix_momentum != unset.matrix_momentum, whole},
          Setting{"optimizer.matrix_nesterov", o.matrix_nesterov != unset.matrix_nesterov, whole},
          Setting{"optimizer.matrix_scale", o.matrix_scale != unset.matrix_scale, whole},
          Setting{"optimizer.matrix_heads", o.matrix_heads != unset.matrix_heads, whole},
          Setting{"optimizer.adamw_lr", o.adamw_lr.has_value(), whole},
          Setting{"optimizer.adamw_weight_decay", o.adamw_weight_decay.has_value(), whole},
          Setting{"optimizer.adamw_patterns", !o.adamw_patterns.empty(), whole},
          Setting{"optimizer.muon_polynomials", o.muon_polynomials != unset.muon_polynomials,
                  o.name == OptimizerKind::muon},
          Setting{"optimizer.shampoo_beta", o.shampoo_beta != unset.shampoo_beta, by_shampoo},
          Setting{"optimizer.shampoo_eps", o.shampoo_eps != unset.shampoo_eps, by_shampoo},
          Setting{"optimizer.shampoo_every", o.shampoo_every != unset.shampoo_every, by_shampoo}})
      rule(used || !set, {key, "optimizer.name"},
           "{} has no effect with optimizer.name = \"{}\": remove it, or choose another optimizer",
           key, name_of(o.name));
    rule(!o.adamw_lr || o.lr > 0, {"optimizer.adamw_lr", "optimizer.lr"},
         "optimizer.adamw_lr needs optimizer.lr above 0, because it follows the schedule of "
         "optimizer.lr: give a small optimizer.lr, or freeze the matrices with [[freeze]]");
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

  void fp8_gathers(const ModelSpec& spec) {
    bool any = false;
    for (std::size_t i = 0; i < spec.params.size(); ++i)
      any = any || can_be_sent_in_fp8(spec, ParamId::at(i));
    rule(any, {"zero.gather_type", "adapter.base", "adapter.method", "precision.fp8_except"},
         "zero.gather_type = \"fp8\" has no effect, because no weight can be sent in fp8. Weights "
         "in 4 bits (adapter.base = \"nf4\"), below DoRA adapters, outside of fp8 products or in "
         "a tied head are sent as they are: set zero.gather_type = \"compute\"");
  }

  // Requires that each pattern matches a matrix, and that a matrix remains.
  void adamw_patterns(const ModelSpec& spec) {
    try {
      const auto whole = updated_as_matrices(spec, deck_.optimizer.adamw_patterns);
      rule(std::ranges::count(whole, 1) > 0, {"optimizer.adamw_patterns", "optimizer.name"},
           "optimizer.adamw_patterns leaves no matrix to optimizer.name = \"{}\": remove a "
           "pattern, or set optimizer.name = \"adamw\"",
           name_of(deck_.optimizer.name));
    } catch (const Error& e) {
      rule(false, {"optimizer.adamw_patterns"}, "{}", e.what());
    }
  }

  // Requires that each pattern matches a parameter name. The names are known only if the model is
  // valid.
  void patterns() {
    if (!problems_.empty()) return;
    ModelConfig model = deck_.model;
    if (model.vocab == 0)
      model.vocab = 1;  // unknown before the token files are read; no name depends on it
    const auto spec = make_spec(model, deck_.adapter);
    const auto of_expert = [&](const AdapterParams& a) {
      return spec.params[a.weight.index()].expert >= 0;
    };
    rule(deck_.adapter.dropout == 0 || std::ranges::none_of(spec.adapters, of_expert),
         {"adapter.dropout", "adapter.patterns"},
         "adapter.dropout = {} does not support adapters of experts: set adapter.dropout = 0, or "
         "remove the experts from adapter.patterns",
         deck_.adapter.dropout);
    const auto check = [&](const std::string& pattern, std::string_view path, std::size_t row = 0) {
      const bool hit = std::ranges::any_of(
          spec.params, [&](const ParamSpec& p) { return matches(pattern, p.name); });
      if (hit) return;
      const auto any = [](const ParamSpec&) { return true; };
      problems_.push_back({{key_in_row(path, row)},
                           fmt::format("{}: the pattern \"{}\" matches no parameter; {}", path,
                                       pattern, advice_for_pattern(spec, pattern, any))});
    };
    for (const auto& pattern : deck_.optimizer.no_decay) check(pattern, "optimizer.no_decay");
    if (sees_matrices(deck_.optimizer.name)) adamw_patterns(spec);
    const auto fp8 = fp8_weights(deck_.precision);
    for (const auto& pattern : fp8.except) {
      bool hit = false;
      for (std::size_t i = 0; i < spec.params.size() && !hit; ++i)
        hit = matches(pattern, spec.params[i].name) && uses_fp8(spec, ParamId::at(i), fp8);
      if (!hit)
        problems_.push_back(
            {{"precision.fp8_except"},
             fmt::format("precision.fp8_except: the pattern \"{}\" matches no weight whose "
                         "products would be in fp8; names look like \"blocks.0.qkv.weight\"",
                         pattern)});
    }
    if (deck_.zero.gather_type == GatherType::fp8) fp8_gathers(with_fp8(spec, fp8));
    for (std::size_t row = 0; row < deck_.freeze.size(); ++row)
      check(deck_.freeze[row].pattern, "freeze.pattern", row);
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
