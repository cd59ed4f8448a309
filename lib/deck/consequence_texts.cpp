#include "lib/deck/consequence_texts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <ranges>
#include <utility>

#include "lib/data/phases.hpp"
#include "lib/model/spec.hpp"
#include "lib/run/run_length.hpp"
#include "lib/run/skip_rules.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/train/objective.hpp"

namespace trireme {

std::string names_of_keys(const std::vector<KeyChange>& changes) {
  std::vector<std::string> names;
  for (const auto& c : changes)
    if (std::ranges::find(names, c.key) == names.end()) names.push_back(c.key);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns the first step after `step` and before `end` that has another batch in the other ramp.
static std::optional<std::int64_t> first_other_batch(const BatchRamp& a, const BatchRamp& b,
                                                     std::int64_t step, std::int64_t end) {
  for (; step < end; step = std::min(a.next_change(step), b.next_change(step)))
    if (a.batch(step) != b.batch(step)) return step;
  return {};
}

std::string batch_text(const Changed& c) {
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

// Returns true if both phases read the same files of their decks in the same shares. Whether a file
// has other tokens is compared elsewhere.
static bool same_mixture(const Deck& a, const PhaseConfig& x, const Deck& b, const PhaseConfig& y) {
  using Share = std::pair<std::ptrdiff_t, double>;
  const auto shares = [](const Deck& deck, const PhaseConfig& phase) {
    const auto files = training_files(deck.data);
    const auto sum = std::accumulate(phase.weights.begin(), phase.weights.end(), 0.0);
    std::vector<Share> all;
    for (std::size_t i = 0; i < phase.path.size(); ++i)
      all.emplace_back(std::ranges::find(files, phase.path[i]) - files.begin(),
                       phase.weights.empty() ? 0 : phase.weights[i] / sum);
    return all;
  };
  return std::ranges::equal(shares(a, x), shares(b, y), [](const Share& m, const Share& n) {
    return m.first == n.first && std::abs(m.second - n.second) < 1e-12;
  });
}

std::string phases_text(const Changed& c) {
  const auto before = phases_from(c.run.before, c.run.meta),
             after = phases_from(c.run.after, c.run.meta);
  const auto same = [&](const PhaseConfig& x, const PhaseConfig& y) {
    return x.from_step == y.from_step && x.from_tokens == y.from_tokens &&
           same_mixture(c.run.before, x, c.run.after, y);
  };
  std::vector<std::string> texts;
  if (const auto& a = before[0], &b = after[0]; !same(a, b)) {
    const bool continues =
        (a.path.size() == 1 || !a.weights.empty()) && (b.path.size() == 1 || !b.weights.empty());
    texts.push_back(fmt::format(
        "from sample {} on, samples come from the files in other shares: {}", c.run.meta.samples,
        continues ? "each file continues where it stopped" : repeats_text(c)));
  }
  if (!std::ranges::equal(before | std::views::drop(1), after | std::views::drop(1), same))
    texts.push_back("the later [[phase]] sections are those of this deck");
  return fmt::format("{}", fmt::join(texts, "; "));
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

// Returns the changed keys because of which all evaluations measure something else than before.
static std::vector<KeyChange> keys_of_all_sets(const Changed& c) {
  const auto& after = c.run.after;
  std::vector<KeyChange> keys;
  for (const auto& change : c.keys)
    if (!change.key.starts_with("validation.") && change.key != "data.validation" &&
        (change.key != "train.batch" || after.evaluate.batches > 0) &&
        (change.key != "data.long_documents" || after.data.packing == Packing::documents))
      keys.push_back(change);
  return keys;
}

// Returns true if a set that both decks have consists of other tokens than before.
static bool has_other_tokens(const Changed& c, const std::string& name) {
  const auto &a = c.run.before.data, &b = c.run.after.data;
  if (name.empty() && a.validation_fraction != b.validation_fraction) return true;
  if (c.run.changed_sets) return std::ranges::count(*c.run.changed_sets, name) > 0;
  if (name.empty()) return a.validation_files != b.validation_files;
  return std::ranges::find(a.sets, name, &ValidationSet::name)->path !=
         std::ranges::find(b.sets, name, &ValidationSet::name)->path;
}

// Returns the names of the sets that both decks have.
static std::vector<std::string> common_sets(const Changed& c) {
  const auto &a = c.run.before.data, &b = c.run.after.data;
  std::vector<std::string> names;
  if (a.has_main_set() && b.has_main_set()) names.emplace_back();
  for (const auto& set : b.sets)
    if (std::ranges::count(a.sets, set.name, &ValidationSet::name) > 0) names.push_back(set.name);
  return names;
}

using WeightsOfSets = std::vector<std::pair<std::string, double>>;
static WeightsOfSets weights_of_sets(const Deck& deck) {
  WeightsOfSets all;
  for (const auto& set : deck.data.sets)
    if (set.weight > 0) all.emplace_back(set.name, set.weight);
  return all;
}

// Returns the sets whose evaluations measure something else than before.
static std::vector<std::string> other_sets(const Changed& c) {
  const bool all = !keys_of_all_sets(c).empty();
  std::vector<std::string> names;
  for (const auto& name : common_sets(c))
    if (all || has_other_tokens(c, name)) names.push_back(name);
  const auto then = weights_of_sets(c.run.before), now = weights_of_sets(c.run.after);
  const bool other_mean = then != now || std::ranges::any_of(now, [&](const auto& weight) {
                            return std::ranges::count(names, weight.first) > 0;
                          });
  if (!then.empty() && !now.empty() && other_mean) names.emplace_back(mean_set);
  return names;
}

std::string evaluations_causes(const Changed& c) {
  auto keys = keys_of_all_sets(c);
  if (weights_of_sets(c.run.before) != weights_of_sets(c.run.after))
    std::ranges::copy_if(c.keys, std::back_inserter(keys),
                         [](const KeyChange& change) { return change.key == "validation.weight"; });
  bool same_keys = false;  // tokens changed although the keys did not
  for (const auto& name : common_sets(c)) {
    if (!has_other_tokens(c, name)) continue;
    const auto key = std::ranges::find(c.keys, name.empty() ? "data.validation" : "validation.path",
                                       &KeyChange::key);
    if (key != c.keys.end())
      keys.push_back(*key);
    else
      same_keys = true;
  }
  auto causes = names_of_keys(keys);
  if (same_keys || causes.empty())
    causes += causes.empty() ? "validation data" : ", validation data";
  return causes;
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

std::string clip_text(const Changed& c) {
  const auto text = [](double clip) {
    return clip > 0 ? fmt::format("at norm {:.4g}", clip) : std::string("off");
  };
  return fmt::format("gradient clipping is {} instead of {}", text(c.run.after.optimizer.clip),
                     text(c.run.before.optimizer.clip));
}

std::string adamw_rate_text(const Changed& c) {
  const auto rate = [](const OptimizerConfig& o) { return o.adamw_lr.value_or(o.lr); };
  const auto before = rate(c.run.before.optimizer), after = rate(c.run.after.optimizer);
  if (before == after) return {};
  return fmt::format(
      "the peak learning rate of the parameters that AdamW updates is {:.4g} instead of {:.4g}",
      after, before);
}

std::string adamw_decay_text(const Changed& c) {
  const auto decay = [](const OptimizerConfig& o) {
    return o.adamw_weight_decay.value_or(o.weight_decay);
  };
  const auto before = decay(c.run.before.optimizer), after = decay(c.run.after.optimizer);
  if (before == after) return {};
  return fmt::format(
      "the weight decay of the parameters that AdamW updates is {:.4g} instead of {:.4g}", after,
      before);
}

std::string freeze_text(const Changed& c) {
  const auto step = c.run.meta.step;
  const auto end = steps_of_run(c.run.after.train, c.run.after.data.context, c.run.meta);
  const auto schedule = [](const Deck& d) {
    return FreezeSchedule(d.freeze, make_spec(d.model, d.adapter));
  };
  const auto before = schedule(c.run.before), after = schedule(c.run.after);
  const auto a = before.at(step), b = after.at(step);
  const auto borders = after.borders(step, end);
  const bool same_later = borders == before.borders(step, end) &&
                          std::ranges::all_of(borders, [&](std::int64_t border) {
                            return before.at(border) == after.at(border);
                          });
  if (a == b && same_later) return {};
  const auto count = [](const auto& states) {
    return std::ranges::count(states, true, &FreezeState::trained);
  };
  return fmt::format(
      "step {} trains {} of {} parameter tensors instead of {}; later steps follow "
      "the new rules",
      c.next_step(), count(b), b.size(), count(a));
}

std::string skip_text(const Changed& c) {
  const auto& t = c.run.after.train;
  if (t.skip_above == 0 && c.run.before.train.skip_above == 0) return {};
  if (t.skip_above == 0) return "steps with an unusual loss or norm are no longer skipped";
  return fmt::format(
      "steps are skipped if their loss or norm is more than {:.4g} standard "
      "deviations above the mean of the last {} steps",
      t.skip_above, t.skip_window);
}

std::string skip_steps_text(const Changed& c) {
  const auto coming = [&](const Deck& d) {
    auto ranges = parse_step_ranges(d.train.skip_steps);
    std::erase_if(ranges, [&](const StepRange& r) { return r.last < c.next_step(); });
    for (auto& r : ranges) r.first = std::max(r.first, c.next_step());
    return steps_text(ranges);
  };
  const auto before = coming(c.run.before), after = coming(c.run.after);
  if (before == after) return {};
  const auto listed = [](const std::string& steps) { return steps.empty() ? "none" : steps; };
  return fmt::format("of the coming steps, the list contains {} instead of {}", listed(after),
                     listed(before));
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
