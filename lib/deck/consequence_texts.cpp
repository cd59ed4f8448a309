#include "lib/deck/consequence_texts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <iterator>
#include <optional>
#include <ranges>
#include <utility>

#include "lib/data/phases.hpp"
#include "lib/model/spec.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/schedule.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/train/objective.hpp"

namespace trireme {

// Relative difference of learning rates below which there is no warning.
static constexpr double small = 0.05;

// Learning rate in a step, counted from 0.
static double rate_of(const Deck& deck, const CheckpointMeta& meta, std::int64_t step) {
  return learning_rate(deck.schedule, deck.optimizer.lr,
                       step_of_run(ramp_after(meta, deck.train, deck.data.context), step,
                                   steps_of_run(deck.train, deck.data.context, meta)));
}

static bool differ(double a, double b) {
  return std::abs(a - b) > small * std::max(a, b);
}

// Looks at several of the later steps that both decks have. Returns the first one in which the
// learning rates differ.
static std::optional<std::int64_t> first_other_rate(const Deck& a, const Deck& b,
                                                    const CheckpointMeta& meta) {
  const auto end = std::min(steps_of_run(a.train, a.data.context, meta),
                            steps_of_run(b.train, b.data.context, meta));
  constexpr std::int64_t looks = 64;
  for (std::int64_t i = 1; i <= looks && end > meta.step; ++i) {
    const auto step = meta.step + (end - 1 - meta.step) * i / looks;
    if (differ(rate_of(a, meta, step), rate_of(b, meta, step))) return step;
  }
  return {};
}

// Returns true if the learning rates of the decks differ in the next step or in one of several
// later steps.
static bool other_rates(const Deck& a, const Deck& b, const CheckpointMeta& meta) {
  return differ(rate_of(a, meta, meta.step), rate_of(b, meta, meta.step)) ||
         first_other_rate(a, b, meta).has_value();
}

// Removes changed keys that alone do not change the learning rate, unless none does.
static void keep_keys_of_rate(Changed& c) {
  const auto& [before, after, meta, _, __] = c.run;
  auto of_length = before, of_schedule = before, of_peak = before;
  of_length.train = after.train;
  of_length.data.context = after.data.context;
  of_schedule.schedule = after.schedule;
  of_peak.optimizer = after.optimizer;
  const auto deck_of_key = [&](const std::string& key) -> const Deck& {
    return key.starts_with("schedule.")    ? of_schedule
           : key.starts_with("optimizer.") ? of_peak
                                           : of_length;
  };
  std::vector<KeyChange> kept;
  std::ranges::copy_if(c.keys, std::back_inserter(kept), [&](const KeyChange& change) {
    return other_rates(before, deck_of_key(change.key), meta);
  });
  if (!kept.empty()) c.keys = std::move(kept);
}

std::string rate_text(Changed& c) {
  const auto& [before, after, meta, _, __] = c.run;
  const auto last = meta.step > 0 ? rate_of(before, meta, meta.step - 1) : 0.0;
  if (c.beginning == Beginning::from_weights) {
    if (meta.step == 0 || !differ(last, after.optimizer.lr)) return {};
    return fmt::format(
        "the learning rate was {:.4g} in the last step of the initial model, and its peak is "
        "now {:.4g}",
        last, after.optimizer.lr);
  }
  const auto then = rate_of(before, meta, meta.step), now = rate_of(after, meta, meta.step);
  if (!other_rates(before, after, meta)) return {};
  keep_keys_of_rate(c);
  if (differ(now, then))
    return fmt::format(
        "the learning rate jumps: {}in step {}, it is {:.4g} with this deck and {:.4g} with the "
        "checkpoint's deck. To avoid the jump, use optimizer.lr, [schedule] and the length of the "
        "run from the checkpoint's deck",
        meta.step > 0 ? fmt::format("it was {:.4g} in step {}; ", last, meta.step) : "",
        c.next_step(), now, then);
  const auto step = first_other_rate(before, after, meta).value();
  return fmt::format(
      "the learning rate of later steps changes: in step {}, it is {:.4g} with "
      "this deck and {:.4g} with the checkpoint's deck",
      step + 1, rate_of(after, meta, step), rate_of(before, meta, step));
}

// Returns the first step after `step` and before `end` that has another batch in the other ramp.
static std::optional<std::int64_t> first_other_batch(const BatchRamp& a, const BatchRamp& b,
                                                     std::int64_t step, std::int64_t end) {
  for (; step < end; step = std::min(a.next_change(step), b.next_change(step)))
    if (a.batch(step) != b.batch(step)) return step;
  return {};
}

std::string batch_text(Changed& c) {
  const auto &a = c.run.before, &b = c.run.after;
  const auto ramp = [&](const Deck& d) { return ramp_after(c.run.meta, d.train, d.data.context); };
  const auto step = c.run.meta.step;
  const auto before = ramp(a), after = ramp(b);
  const auto now = after.batch(step), then = before.batch(step);
  if (now == then) {
    const auto other =
        first_other_batch(before, after, step, steps_of_run(b.train, b.data.context, c.run.meta));
    if (!other) return {};
    return fmt::format("step {} trains on {} samples instead of {}", *other + 1,
                       after.batch(*other), before.batch(*other));
  }
  return fmt::format("step {} trains on {} samples ({} tokens) instead of {} ({} tokens)",
                     c.next_step(), now, now * b.data.context, then, then * a.data.context);
}

// Says which samples come twice if the order or the samples of an epoch change.
static std::string repeats_text(const Changed& c) {
  if (!c.run.after.data.weights.empty() || !c.run.after.data.phases.empty())
    return "in the rest of the files' epochs, some samples are used again, and others are left out";
  const auto all = c.run.samples_per_epoch;
  const auto used = all > 0 ? c.run.meta.samples % all : 0;
  if (used == 0) return "no sample repeats, because an epoch has just ended";
  const auto twice = std::llround(static_cast<double>(used) * static_cast<double>(all - used) /
                                  static_cast<double>(all));
  return fmt::format(
      "in the rest of this epoch, about {} of its {} samples are used again, and as many are left "
      "out",
      twice, all);
}

std::string context_text(Changed& c) {
  const auto before = c.run.before.data.context, after = c.run.after.data.context;
  const auto text = fmt::format("samples have {} tokens instead of {}", after, before);
  if (c.beginning == Beginning::from_weights) return text;
  return fmt::format("{}, and each step has {} tokens instead of {}; {}", text,
                     after * c.run.after.train.batch, before * c.run.before.train.batch,
                     repeats_text(c));
}

std::string seed_text(Changed& c) {
  const auto& d = c.run.after;
  const auto dropout = std::max(d.train.dropout, d.adapter.dropout) > 0;
  const auto masks = dropout ? "; dropout chooses other activations" : "";
  if (d.data.order == SampleOrder::sequential) return dropout ? masks + 2 : "";
  return fmt::format("from sample {} on, samples come in another order: {}{}", c.run.meta.samples,
                     repeats_text(c), masks);
}

std::string order_text(Changed& c) {
  return fmt::format("from sample {} on, samples come in {} order: {}", c.run.meta.samples,
                     name_of(c.run.after.data.order), repeats_text(c));
}

// Returns what a run reads from a checkpoint on: the phase that has begun there, whose beginning is
// 0, and the later ones.
static std::vector<PhaseConfig> phases_from(const Deck& deck, const CheckpointMeta& meta) {
  const auto first = first_samples_of_phases(deck.data, deck.train, meta);
  std::vector<PhaseConfig> all{resolved_phase(deck.data, 0)};
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] <= meta.samples) all.clear();
    all.push_back(resolved_phase(deck.data, i + 1));
  }
  all[0].from_step = all[0].from_tokens = 0;
  return all;
}

std::string phases_text(Changed& c) {
  const auto before = phases_from(c.run.before, c.run.meta),
             after = phases_from(c.run.after, c.run.meta);
  std::vector<std::string> texts;
  if (const auto& a = before[0], &b = after[0]; a.path != b.path || a.weights != b.weights) {
    const bool continues =
        (a.path.size() == 1 || !a.weights.empty()) && (b.path.size() == 1 || !b.weights.empty());
    texts.push_back(fmt::format(
        "from sample {} on, samples come from the files in other shares: {}", c.run.meta.samples,
        continues ? "each file continues where it stopped" : repeats_text(c)));
  }
  if (!std::ranges::equal(before | std::views::drop(1), after | std::views::drop(1)))
    texts.push_back("the later [[phase]] sections are those of this deck");
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string cut_text(Changed& c) {
  const auto &a = c.run.before.data, &b = c.run.after.data;
  // Validation files do not change the training samples, but a fraction does.
  const bool others = a.validation_fraction != b.validation_fraction || c.has("data.packing") ||
                      (c.has("data.long_documents") && b.packing == Packing::documents);
  if (!others) return {};
  return fmt::format("from sample {} on, samples consist of other tokens: {}", c.run.meta.samples,
                     repeats_text(c));
}

std::string attention_text(Changed& c) {
  return c.run.after.data.attention == AttentionSpan::document
             ? "each token attends only to its own document, no longer to the whole sample"
             : "each token attends to the whole sample, no longer only to its own document";
}

std::string masks_text(Changed& c) {
  return fmt::format("the first token of each document {} in the loss",
                     c.run.after.data.separator_masks ? "no longer counts" : "now counts");
}

// Returns the sets whose evaluations measure something else than before.
static std::vector<std::string> other_sets(const Changed& c) {
  const auto &a = c.run.before, &b = c.run.after;
  const bool others = std::ranges::any_of(c.keys, [&](const KeyChange& change) {
    return change.key != "validation.weight" && change.key != "data.validation" &&
           (change.key != "train.batch" || b.evaluate.batches > 0) &&
           (change.key != "data.long_documents" || b.data.packing == Packing::documents);
  });
  const auto has_changed = [&](const std::string& name) {
    return others || std::ranges::count(c.run.changed_sets, name) > 0;
  };
  std::vector<std::string> names;
  const bool other_part = a.data.validation_fraction != b.data.validation_fraction;
  if (a.data.has_main_set() && b.data.has_main_set() && (other_part || has_changed("")))
    names.emplace_back();
  for (const auto& set : b.data.sets)
    if (std::ranges::count(a.data.sets, set.name, &ValidationSet::name) > 0 &&
        has_changed(set.name))
      names.push_back(set.name);
  using Weights = std::vector<std::pair<std::string, double>>;
  const auto weights = [](const Deck& d) {
    Weights all;
    for (const auto& set : d.data.sets)
      if (set.weight > 0) all.emplace_back(set.name, set.weight);
    return all;
  };
  const auto then = weights(a), now = weights(b);
  const bool other_mean = then != now || std::ranges::any_of(now, [&](const auto& weight) {
                            return has_changed(weight.first);
                          });
  if (!then.empty() && !now.empty() && other_mean) names.emplace_back(mean_set);
  return names;
}

std::string evaluations_text(Changed& c) {
  const auto names = other_sets(c);
  if (names.empty()) return {};
  std::vector<std::string> labels;
  for (const auto& name : names) labels.push_back(name.empty() ? "data.validation" : name);
  const auto& d = c.run.after;
  const bool ranked = d.evaluate.patience > 0 || d.checkpoint.keep_best > 0;
  return fmt::format(
      "later evaluations of {} are not comparable with earlier ones{}", fmt::join(labels, ", "),
      ranked ? ", but evaluate.patience and checkpoint.keep_best still compare them" : "");
}

// Returns the effective window of an exponential moving average, in steps.
static double reach(double decay) {
  return 1 / (1 - decay);
}

std::string betas_text(Changed& c) {
  const auto &a = c.run.before.optimizer, &b = c.run.after.optimizer;
  return fmt::format(
      "the means of gradients and of their squares reach back about {:.0f} and "
      "{:.0f} steps instead of {:.0f} and {:.0f}",
      reach(b.beta1), reach(b.beta2), reach(a.beta1), reach(a.beta2));
}

std::string decay_text(Changed& c) {
  const auto &a = c.run.before, &b = c.run.after;
  const auto step = c.run.meta.step;
  return fmt::format("in step {}, weights shrink by {:.3g} of their value instead of {:.3g}",
                     c.next_step(), rate_of(b, c.run.meta, step) * b.optimizer.weight_decay,
                     rate_of(a, c.run.meta, step) * a.optimizer.weight_decay);
}

std::string clip_text(Changed& c) {
  const auto text = [](double clip) {
    return clip > 0 ? fmt::format("at norm {:.4g}", clip) : std::string("off");
  };
  return fmt::format("gradient clipping is {} instead of {}", text(c.run.after.optimizer.clip),
                     text(c.run.before.optimizer.clip));
}

std::string freeze_text(Changed& c) {
  const auto trained = [&](const Deck& d) {
    const auto spec = make_spec(d.model, d.adapter);
    return FreezeSchedule(d.freeze, spec).at(c.run.meta.step);
  };
  const auto count = [](const auto& states) {
    return std::ranges::count(states, true, &FreezeState::trained);
  };
  const auto a = trained(c.run.before), b = trained(c.run.after);
  return fmt::format(
      "step {} trains {} of {} parameter tensors instead of {}; later steps follow "
      "the new rules",
      c.next_step(), count(b), b.size(), count(a));
}

std::string skip_text(Changed& c) {
  const auto& t = c.run.after.train;
  if (t.skip_above == 0) return "steps with an unusual loss or norm are no longer skipped";
  return fmt::format(
      "steps are skipped if their loss or norm is more than {:.4g} standard "
      "deviations above the mean of the last {} steps",
      t.skip_above, t.skip_window);
}

std::string rounding_text(Changed& c) {
  const auto exact = [](const Deck& d) { return d.run.exactness == Exactness::invariant; };
  const bool bits = c.has("run.exactness") || c.has("run.exact_chunk") || c.has("run.backend");
  if (exact(c.run.before) && exact(c.run.after) && !bits) return {};
  return fmt::format(
      "results from step {} on have other rounding errors than with the "
      "checkpoint's deck",
      c.next_step());
}

}  // namespace trireme
