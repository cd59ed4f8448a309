#include "lib/deck/consequence_texts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

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

std::string rate_text(const Changed& c) {
  const auto& [before, after, meta, _] = c.run;
  const auto last = meta.step > 0 ? rate_of(before, meta, meta.step - 1) : 0.0;
  if (c.beginning == Beginning::from_weights) {
    if (meta.step == 0 || !differ(last, after.optimizer.lr)) return {};
    return fmt::format(
        "the learning rate was {:.4g} in the last step of the initial model, and its peak is "
        "now {:.4g}",
        last, after.optimizer.lr);
  }
  const auto then = rate_of(before, meta, meta.step), now = rate_of(after, meta, meta.step);
  if (differ(now, then))
    return fmt::format(
        "the learning rate jumps: {}in step {}, it is {:.4g} with this deck and {:.4g} with the "
        "checkpoint's deck. To avoid the jump, use optimizer.lr, [schedule] and the length of the "
        "run from the checkpoint's deck",
        meta.step > 0 ? fmt::format("it was {:.4g} in step {}; ", last, meta.step) : "",
        c.next_step(), now, then);
  // The rates may part later.
  const auto end = std::min(steps_of_run(before.train, before.data.context, meta),
                            steps_of_run(after.train, after.data.context, meta));
  constexpr std::int64_t looks = 64;
  for (std::int64_t i = 1; i <= looks && end > meta.step; ++i) {
    const auto step = meta.step + (end - 1 - meta.step) * i / looks;
    const auto a = rate_of(before, meta, step), b = rate_of(after, meta, step);
    if (differ(a, b))
      return fmt::format(
          "the learning rate of later steps changes: in step {}, it is {:.4g} with "
          "this deck and {:.4g} with the checkpoint's deck",
          step + 1, b, a);
  }
  return {};
}

std::string batch_text(const Changed& c) {
  const auto &a = c.run.before, &b = c.run.after;
  const auto batch = [&](const Deck& d) {
    return ramp_after(c.run.meta, d.train, d.data.context).batch(c.run.meta.step);
  };
  const auto now = batch(b), then = batch(a);
  if (now == then) return "the batch of later steps changes";
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

std::string context_text(const Changed& c) {
  const auto before = c.run.before.data.context, after = c.run.after.data.context;
  const auto text = fmt::format("samples have {} tokens instead of {}", after, before);
  if (c.beginning == Beginning::from_weights) return text;
  return fmt::format("{}, and each step has {} tokens instead of {}; {}", text,
                     after * c.run.after.train.batch, before * c.run.before.train.batch,
                     repeats_text(c));
}

std::string seed_text(const Changed& c) {
  const auto& d = c.run.after;
  const auto dropout = std::max(d.train.dropout, d.adapter.dropout) > 0;
  const auto masks = dropout ? "; dropout chooses other activations" : "";
  if (d.data.order == SampleOrder::sequential) return dropout ? masks + 2 : "";
  return fmt::format("from sample {} on, samples come in another order: {}{}", c.run.meta.samples,
                     repeats_text(c), masks);
}

std::string order_text(const Changed& c) {
  return fmt::format("from sample {} on, samples come in {} order: {}", c.run.meta.samples,
                     name_of(c.run.after.data.order), repeats_text(c));
}

std::string shares_text(const Changed& c) {
  const auto &a = c.run.before.data, &b = c.run.after.data;
  const bool continues =
      (a.path.size() == 1 || !a.weights.empty()) && (b.path.size() == 1 || !b.weights.empty());
  return fmt::format("from sample {} on, samples come from the files in other shares: {}",
                     c.run.meta.samples,
                     continues ? "each file continues where it stopped" : repeats_text(c));
}

std::string phases_text(const Changed& c) {
  return fmt::format(
      "from sample {} on, the [[phase]] sections of this deck apply. A section whose "
      "start has passed begins now",
      c.run.meta.samples);
}

std::string cut_text(const Changed& c) {
  const auto &a = c.run.before.data, &b = c.run.after.data;
  // Validation files do not change the training samples, but a fraction does.
  const bool others = a.validation_fraction != b.validation_fraction || c.has("data.packing") ||
                      (c.has("data.long_documents") && b.packing == Packing::documents);
  if (!others) return {};
  return fmt::format("from sample {} on, samples consist of other tokens: {}", c.run.meta.samples,
                     repeats_text(c));
}

std::string attention_text(const Changed& c) {
  return c.run.after.data.attention == AttentionSpan::document
             ? "each token attends only to its own document, no longer to the whole sample"
             : "each token attends to the whole sample, no longer only to its own document";
}

std::string masks_text(const Changed& c) {
  return fmt::format("the first token of each document {} in the loss",
                     c.run.after.data.separator_masks ? "no longer counts" : "now counts");
}

// Returns the sets whose evaluations measure something else than before.
static std::vector<std::string> other_sets(const Changed& c) {
  const auto &a = c.run.before, &b = c.run.after;
  const bool others = std::ranges::any_of(c.keys, [&](const KeyChange& change) {
    return !change.key.starts_with("validation.") && change.key != "data.validation" &&
           (change.key != "train.batch" || b.evaluate.batches > 0) &&
           (change.key != "data.long_documents" || b.data.packing == Packing::documents);
  });
  std::vector<std::string> names;
  const bool other_main = others || a.data.validation_files != b.data.validation_files ||
                          a.data.validation_fraction != b.data.validation_fraction;
  if (a.data.has_main_set() && b.data.has_main_set() && other_main) names.emplace_back();
  for (const auto& set : b.data.sets) {
    const auto old = std::ranges::find(a.data.sets, set.name, &ValidationSet::name);
    if (old != a.data.sets.end() && (others || old->path != set.path)) names.push_back(set.name);
  }
  const auto weighted = [](const Deck& d) {
    auto sets = d.data.sets;
    std::erase_if(sets, [](const auto& set) { return set.weight == 0; });
    return sets;
  };
  const auto then = weighted(a), now = weighted(b);
  if (!then.empty() && !now.empty() && (others || then != now)) names.emplace_back(mean_set);
  return names;
}

std::string evaluations_text(const Changed& c) {
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

std::string betas_text(const Changed& c) {
  const auto &a = c.run.before.optimizer, &b = c.run.after.optimizer;
  return fmt::format(
      "the means of gradients and of their squares reach back about {:.0f} and "
      "{:.0f} steps instead of {:.0f} and {:.0f}",
      reach(b.beta1), reach(b.beta2), reach(a.beta1), reach(a.beta2));
}

std::string decay_text(const Changed& c) {
  const auto &a = c.run.before, &b = c.run.after;
  const auto step = c.run.meta.step;
  return fmt::format("in step {}, weights shrink by {:.3g} of their value instead of {:.3g}",
                     c.next_step(), rate_of(b, c.run.meta, step) * b.optimizer.weight_decay,
                     rate_of(a, c.run.meta, step) * a.optimizer.weight_decay);
}

std::string clip_text(const Changed& c) {
  const auto text = [](double clip) {
    return clip > 0 ? fmt::format("at norm {:.4g}", clip) : std::string("off");
  };
  return fmt::format("gradient clipping is {} instead of {}", text(c.run.after.optimizer.clip),
                     text(c.run.before.optimizer.clip));
}

std::string freeze_text(const Changed& c) {
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

std::string skip_text(const Changed& c) {
  const auto& t = c.run.after.train;
  if (t.skip_above == 0) return "steps with an unusual loss or norm are no longer skipped";
  return fmt::format(
      "steps are skipped if their loss or norm is more than {:.4g} standard "
      "deviations above the mean of the last {} steps",
      t.skip_above, t.skip_window);
}

std::string rounding_text(const Changed& c) {
  const auto exact = [](const Deck& d) { return d.run.exactness == Exactness::invariant; };
  const bool bits = c.has("run.exactness") || c.has("run.exact_chunk") || c.has("run.backend");
  if (exact(c.run.before) && exact(c.run.after) && !bits) return {};
  return fmt::format(
      "results from step {} on have other rounding errors than with the "
      "checkpoint's deck",
      c.next_step());
}

}  // namespace trireme
