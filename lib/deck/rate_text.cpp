// The consequences of changed keys for the learning rate and the weight decay.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/deck/consequence_texts.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/schedule.hpp"

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
  std::vector<std::int64_t> steps;
  for (std::int64_t i = 1; i <= looks; ++i)
    steps.push_back(meta.step + (end - 1 - meta.step) * i / looks);
  for (const auto* const deck : {&a, &b})  // the ends of decays, which may be short
    for (const auto decay_end :
         steps_of_decay_ends(deck->schedule, ramp_after(meta, deck->train, deck->data.context)))
      steps.push_back(decay_end - 1);
  std::ranges::sort(steps);
  for (const auto step : steps)
    if (meta.step < step && step < end && differ(rate_of(a, meta, step), rate_of(b, meta, step)))
      return step;
  return {};
}

// Returns true if the learning rates of the decks differ in the next step or in one of several
// later steps.
static bool other_rates(const Deck& a, const Deck& b, const CheckpointMeta& meta) {
  return differ(rate_of(a, meta, meta.step), rate_of(b, meta, meta.step)) ||
         first_other_rate(a, b, meta).has_value();
}

std::string rate_causes(const Changed& c) {
  if (c.keys.empty()) return "optimizer.lr";
  const auto &before = c.run.before, &after = c.run.after;
  // The checkpoint's deck with the changes of one group of keys.
  auto of_length = before, of_schedule = before, of_peak = before;
  of_length.train = after.train;
  of_length.data.context = after.data.context;
  of_schedule.schedule = after.schedule;
  of_peak.optimizer = after.optimizer;
  std::vector<KeyChange> causes;
  for (const auto& change : c.keys) {
    const auto& deck = change.key.starts_with("schedule.")    ? of_schedule
                       : change.key.starts_with("optimizer.") ? of_peak
                                                              : of_length;
    if (c.beginning == Beginning::restart && other_rates(before, deck, c.run.meta))
      causes.push_back(change);
  }
  return names_of_keys(causes.empty() ? c.keys : causes);  // together, groups may have an effect
}

std::string rate_text(const Changed& c) {
  const auto &before = c.run.before, &after = c.run.after;
  const auto& meta = c.run.meta;
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

std::string decay_text(const Changed& c) {
  const auto &a = c.run.before, &b = c.run.after;
  const auto step = c.run.meta.step;
  return fmt::format("in step {}, weights shrink by {:.3g} of their value instead of {:.3g}",
                     c.next_step(), rate_of(b, c.run.meta, step) * b.optimizer.weight_decay,
                     rate_of(a, c.run.meta, step) * a.optimizer.weight_decay);
}

}  // namespace trireme
