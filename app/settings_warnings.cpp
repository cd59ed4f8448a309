#include "app/settings_warnings.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/interchange/adapter_names.hpp"
#include "lib/keys/value.hpp"
#include "lib/model/spec.hpp"
#include "lib/run/optimizer_warnings.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/schedule.hpp"
#include "lib/run/unreached_settings.hpp"
#include "lib/shard/freeze.hpp"

namespace trireme {

namespace {

// Warns if a step needs more samples than its token files have.
void warn_of_batch(const Deck& deck, const CheckpointMeta& from, const Dataset& training) {
  const auto batch = deck.train.batch, all = training.samples_per_epoch();
  if (training.has_common_epochs()) {
    if (batch > all)
      log_warning(
          "train.batch = {} is more than the {} of an epoch: a step trains on some samples more "
          "than once",
          batch, counted(all, "sample"));
    return;
  }
  for (const auto& part : extents_of_phases(deck.data, deck.train, from)) {
    const auto& phase = training.phase_of(part.first_sample);
    const auto samples = training.samples_of(phase);
    if (part.largest_batch > samples)
      log_warning(
          "a batch of {} is more than the {} in {}, which the run reads from step {} on: a step "
          "trains on some samples more than once",
          part.largest_batch, counted(samples, "sample"), training.text_of(phase),
          part.first_step + 1);
  }
}

void warn_of_trace(const std::vector<std::int64_t>& traced, std::int64_t steps) {
  if (traced.empty() || traced[1] <= steps) return;
  log_warning("run.trace_steps = [{}, {}] is beyond the run's last step, {}: {}", traced[0],
              traced[1], steps, traced[0] > steps ? "nothing is traced" : "the trace ends there");
}

void warn_of_freeze(const std::vector<FreezeRule>& rules, std::int64_t steps) {
  for (const auto& rule : rules) {
    const bool never = rule.from_step >= steps;
    if (!never && rule.to_step <= steps) continue;
    log_warning(
        "the [[freeze]] rule of \"{}\" {} at step {}, but the run's last step is {} (counted from "
        "0): {}",
        rule.pattern, never ? "begins" : "ends", never ? rule.from_step : rule.to_step, steps - 1,
        never ? "it freezes nothing" : "it freezes until the run ends");
  }
}

// Returns the learning rate of the last step of a run that ends at `end`.
double last_rate(const Deck& deck, RunPoint end) {
  const auto batch = BatchRamp(deck.train, deck.data.context).batch(end.steps - 1);
  const RunPoint before{end.steps - 1, end.tokens - batch * deck.data.context};
  return learning_rate(deck.schedule, deck.optimizer.lr, {before, end, end});
}

void warn_of_schedule(const Deck& deck, RunPoint end) {
  const auto& s = deck.schedule;
  const std::string unit = counts_tokens(s) ? "token" : "step";
  const auto total = in_unit(s, end), warmup = warmup_of(s), decay = decay_of(s);
  if (warmup > total)
    return log_warning(
        "schedule.warmup_{}s = {} is longer than the run of {}: the learning rate reaches {:.3g}, "
        "not optimizer.lr = {}",
        unit, warmup, counted(total, unit), last_rate(deck, end), number_text(deck.optimizer.lr));
  for (const auto point : decay_ends_of(s))
    if (point >= total)
      log_warning(
          "schedule.decay_end_{0}s contains {1}, but the run has {2}: it is ignored, because the "
          "last decay ends with the run",
          unit, point, counted(total, unit));
  if (s.shape == ScheduleShape::constant || decay <= total - warmup) return;
  const auto text = fmt::format("schedule.decay_{}s = {} is longer than the run after warmup, {}",
                                unit, decay, counted(total - warmup, unit));
  if (s.shape == ScheduleShape::wsd)
    log_warning("{}", text);
  else
    log_warning("{}: the learning rate falls only to {:.3g}, not to schedule.min_lr = {}", text,
                last_rate(deck, end), number_text(s.min_lr));
}

// Warns if `export --format peft` will refuse parameters of adapter.also_train. Does not warn if no
// family of transformers fits the model.
void warn_of_also_trained(const Deck& deck, const ModelSpec& spec) {
  try {
    static_cast<void>(family_of(deck.model));
  } catch (const Error&) {
    return;
  }
  try {
    static_cast<void>(also_trained_tensors(spec));
  } catch (const Error& e) {
    log_warning("`trireme export --format peft` will fail: {}", e.what());
  }
}

// Warns if `export --format peft` will refuse the adapters. Models that no family of transformers
// fits have no names of modules to warn of.
void warn_of_shared_modules(const Deck& deck, const ModelSpec& spec) {
  std::vector<std::string> shared, stored;
  // Products with adapters in PEFT: those of the deck, and all possible ones.
  std::set<std::string> here, all;
  const auto add = [](std::vector<std::string>& names, std::string name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  };
  try {
    for (const auto& s : shared_products(spec)) add(shared, pattern_of(s.product));
    if (shared.empty()) return;
    AdapterConfig everywhere{.rank = deck.adapter.rank};
    if (deck.model.experts > 0) everywhere.patterns.emplace_back("*.experts.*");
    for (const auto& t : adapter_tensors(spec, SharedModules::skip)) here.insert(t.product);
    for (const auto& t : adapter_tensors(make_spec(deck.model, everywhere), SharedModules::skip))
      all.insert(t.product);
  } catch (const Error&) {
    return;
  }
  // A pattern replaces names only if the deck has adapters in all blocks.
  for (const auto& product : here) {
    const auto pattern = pattern_of(product);
    const bool whole = std::ranges::all_of(
        all, [&](auto& other) { return pattern_of(other) != pattern || here.contains(other); });
    add(stored, whole ? pattern : product);
  }
  log_warning(
      "`trireme export --format peft` will refuse the adapters of {}, because one module of "
      "transformers computes each of these products and others. The other formats merge them into "
      "the model{}",
      fmt::join(shared, " and "),
      stored.empty() ? ""
                     : fmt::format(". To export to PEFT, set adapter.patterns = {}",
                                   to_toml(KeyValue(stored))));
}

}  // namespace

void warn_of_settings(const Deck& deck, const CheckpointMeta& from, const Dataset* training) {
  const RunPoint begin{from.step, from.tokens};
  const auto end = end_of_run(deck.train, deck.data.context, begin);
  const auto steps = end.steps;
  if (training) warn_of_batch(deck, from, *training);
  for (const auto& [section, step] : borders_of_phases(deck.data, deck.train, from))
    if (step >= steps)
      log_warning(
          "[[phase]] section {} would begin with step {}, but the run has only {}, so it has no "
          "effect",
          section + 1, step + 1, counted(steps, "step"));
  if (deck.evaluate.patience > 0 && deck.checkpoint.keep_best == 0 && deck.checkpoint.keep_last > 0)
    log_warning(
        "evaluate.patience may end the run when its best checkpoint is already removed: set "
        "checkpoint.keep_best = 1 to keep it");
  warn_of_trace(deck.run.trace_steps, steps);
  warn_of_freeze(deck.freeze, steps);
  warn_of_schedule(deck, end);
  for (const auto& text : unreached_settings(deck.train, deck.schedule, deck.data.context, begin))
    log_warning("{}", text);
  const auto spec = make_spec(deck.model, deck.adapter);
  for (const auto& text :
       optimizer_warnings(deck.optimizer, spec, deck.freeze, {begin.steps, steps}))
    log_warning("{}", text);
  if (deck.adapter.rank > 0) {
    warn_of_also_trained(deck, spec);
    warn_of_shared_modules(deck, spec);
  }
  const FreezeSchedule freeze(deck.freeze, spec);
  if (std::ranges::none_of(freeze.at(begin.steps), &FreezeState::trained) &&
      freeze.borders(begin.steps, steps).empty())
    log_warning("nothing is trained: the [[freeze]] rules freeze all parameters in all steps");
}

void warn_of_initial_optimizer(const Deck& deck, const CheckpointReader& initial) {
  const auto steps = end_of_run(deck.train, deck.data.context, {}).steps;
  if (!updates_base_matrices(deck.optimizer, make_spec(deck.model, deck.adapter), deck.freeze,
                             {0, steps}))
    return;
  std::string before = "may have been trained with AdamW in another program";
  if (!initial.meta().deck.empty()) {
    try {
      if (deck_of(initial).optimizer.name != OptimizerKind::adamw) return;
      before = "was trained with optimizer.name = \"adamw\"";
    } catch (const Error&) {  // the deck of an older version, which had neither muon nor shampoo
      before = "may have been trained with AdamW in an older version";
    }
  }
  log_warning(
      "optimizer.name = \"{}\" trains the weights of {}, which {}. Fine-tuning such a model with "
      "Muon often gives a worse model than with AdamW (Qu et al. 2026, arXiv 2605.10468), and "
      "Shampoo's steps are similar to Muon's. Set optimizer.name = \"adamw\", or train only "
      "matrices of adapters (adapter.rank, adapter.also_train), which reduces the difference",
      name_of(deck.optimizer.name), initial.directory().string(), before);
}

}  // namespace trireme
