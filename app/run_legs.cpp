#include "app/run_legs.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/training_input.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/data/phases.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/deck/consequences.hpp"
#include "lib/io/rollback_rows.hpp"
#include "lib/io/run_starts.hpp"
#include "lib/run/run_length.hpp"

namespace trireme {

BatchRamp Leg::batches() const {
  return ramp_after(begin, deck.train, deck.data.context);
}

std::int64_t Leg::samples_before(std::int64_t step) const {
  return begin.samples + batches().samples(begin.step, step - 1);
}

std::int64_t Leg::step_of(std::int64_t sample) const {
  return step_of_sample(batches(), begin, sample) + 1;
}

Dataset Leg::data() const {
  require(unknown.empty(), "{}", unknown);
  auto data = open_training(deck, begin).data;
  require(files.empty() || hash_of_files(data) == files,
          "the steps from {} on read other token files than those that are now in {}: put the "
          "former files back",
          begin.step + 1, fmt::join(training_files(deck.data), ", "));
  return data;
}

// Sets where each leg ends.
static void set_ends(std::vector<Leg>& legs) {
  auto least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = legs.size(); i-- > 0;) {
    legs[i].last_step = std::min(legs[i].last_step, least);
    least = std::min(least, legs[i].begin.step);
    if (i + 1 < legs.size()) legs[i].last_sample = legs[i + 1].begin.samples - 1;
  }
}

// Returns the legs that starts.json records. Returns an empty list if the newest deck is not there.
static std::vector<Leg> recorded_legs(const Side& side) {
  const auto starts = read_starts(side.path);
  if (starts.empty() || starts.back().deck != read_text(side.path / "effective.toml")) return {};
  std::vector<Leg> legs;
  const auto first = side.history.empty() ? 1 : side.history.front().step;
  if (first <= starts.front().step) {
    legs.push_back({side.deck, {}});
    legs.back().begin.step = first - 1;
    legs.back().unknown =
        fmt::format("the data of the steps {} to {} is unknown: {} does not contain their deck",
                    first, starts.front().step, (side.path / starts_name).string());
  }
  for (const auto& start : starts) {
    Leg leg{parse_dumped_deck(start.deck, (side.path / starts_name).string()), {}};
    leg.begin.step = start.step;
    leg.begin.samples = start.samples;
    leg.begin.tokens = start.tokens;
    leg.begin.extra.data_phases = start.phases;
    leg.files = start.token_files;
    legs.push_back(std::move(leg));
  }
  return legs;
}

// Notes that the data of a leg is unknown if the leg does not lead to its end.
static void check_end(Leg& leg, const Side& side, const RunPoint& end,
                      const std::vector<RollbackRow>& rollbacks) {
  const auto samples = leg.samples_before(end.steps + 1) - leg.begin.samples;
  const bool rolled_back = std::ranges::any_of(rollbacks, [&](const RollbackRow& row) {
    return row.step > leg.begin.step && row.step < end.steps;
  });
  if (!leg.unknown.empty() ||
      (!rolled_back && leg.begin.tokens + samples * leg.deck.data.context == end.tokens))
    return;
  leg.unknown = fmt::format(
      "the data of the steps {} to {} is unknown: {}, and {} does not contain them",
      leg.begin.step + 1, end.steps,
      rolled_back ? "the run rolled back between them"
                  : "they had another batch or context than the deck in the next checkpoint",
      (side.path / starts_name).string());
}

// Returns the legs between checkpoints. Each has the deck of the checkpoint at its end.
static std::vector<Leg> legs_between_checkpoints(const Side& side) {
  const auto rollbacks = read_rollbacks(side.path);
  std::vector<Leg> legs;
  CheckpointMeta begin;
  std::string unknown;
  if (!side.history.empty() && side.history.front().step > 1) {
    begin.step = side.history.front().step - 1;
    unknown = fmt::format(
        "the data of the steps before the first checkpoint is unknown: {} does not contain them",
        (side.path / starts_name).string());
  }
  for (const auto& info : side.checkpoints) {
    if (info.step <= begin.step || damage_of(info.directory, Check::sizes)) continue;
    const CheckpointReader reader(info.directory);
    legs.push_back({deck_of(reader), begin, info.step});
    legs.back().unknown = std::exchange(unknown, {});
    check_end(legs.back(), side, {reader.meta().step, reader.meta().tokens}, rollbacks);
    begin = reader.meta();
    continue_after_rollback(begin, rollbacks);
  }
  legs.push_back({side.deck, begin});
  legs.back().unknown = unknown;
  if (side.step > begin.step)
    check_end(legs.back(), side, {side.step, side.history.back().tokens}, rollbacks);
  return legs;
}

std::vector<Leg> legs_of(const Side& side) {
  auto legs = recorded_legs(side);
  if (legs.empty()) {
    log_warning(
        "{} does not contain the decks of this run's steps. It is assumed that each step had the "
        "deck of the next checkpoint, which is wrong if a restart before it changed the data",
        (side.path / starts_name).string());
    legs = legs_between_checkpoints(side);
  }
  set_ends(legs);
  return legs;
}

const Leg& leg_of_step(const std::vector<Leg>& legs, std::int64_t step) {
  const auto leg =
      std::find_if(legs.rbegin(), legs.rend(), [&](const Leg& l) { return l.begin.step < step; });
  require(leg != legs.rend(),
          "the run begins with step {}: look for step {} in the run that it continues",
          legs.front().begin.step + 1, step);
  return *leg;
}

// Throws Error if the next leg trains in another way than this one. Returns true if both also round
// in the same way.
static bool goes_on(const Leg& leg, const Leg& next, const std::vector<RollbackRow>& rollbacks) {
  const auto step = next.begin.step + 1;
  require(leg.files.empty() || next.files.empty() || leg.files == next.files,
          "the token files changed before step {}", step);
  bool same_rounding = true;
  const ContinuedRun run{leg.deck, next.deck, next.begin, 0};
  for (const auto& consequence : consequences(run, Beginning::restart)) {
    require(consequence.affects != Affects::course, "the deck changed before step {} ({})", step,
            consequence.causes);
    same_rounding = same_rounding && consequence.affects != Affects::rounding;
  }
  // A replay follows the rollbacks of the run.
  const bool rolled_back = std::ranges::any_of(rollbacks, [&](const RollbackRow& row) {
    return row.step == next.begin.step && row.next_sample() == next.begin.samples;
  });
  require(rolled_back || leg.samples_before(step) == next.begin.samples,
          "the run continued with sample {} in step {}, instead of sample {}", next.begin.samples,
          step, leg.samples_before(step));
  return same_rounding;
}

// Returns the legs that computed the steps, or an empty list if a deck of a step is unknown.
static std::vector<Leg> legs_within(const Side& side, const StepRange& steps) {
  auto legs = side.is_run ? recorded_legs(side) : std::vector<Leg>();
  set_ends(legs);
  std::erase_if(legs, [&](const Leg& leg) {
    return std::max(leg.begin.step + 1, steps.first) > std::min(leg.last_step, steps.last);
  });
  const bool known = !legs.empty() && legs.front().begin.step < steps.first &&
                     std::ranges::all_of(legs, [](const Leg& leg) { return leg.unknown.empty(); });
  return known ? std::move(legs) : std::vector<Leg>();
}

DeckOfSteps deck_of_steps(const Side& side, const StepRange& steps) {
  const auto legs = legs_within(side, steps);
  if (!legs.empty()) {
    const auto rollbacks = read_rollbacks(side.path);
    DeckOfSteps found{legs.back().deck};
    for (std::size_t i = 1; i < legs.size(); ++i)
      found.same_rounding = goes_on(legs[i - 1], legs[i], rollbacks) && found.same_rounding;
    return found;
  }
  for (const auto& info : side.checkpoints)
    if (info.step >= steps.last && !damage_of(info.directory, Check::sizes))
      return {deck_of(CheckpointReader(info.directory))};
  return {side.deck};
}

const Leg& leg_of_sample(const std::vector<Leg>& legs, std::int64_t sample) {
  const auto leg = std::find_if(legs.rbegin(), legs.rend(),
                                [&](const Leg& l) { return l.begin.samples <= sample; });
  require(leg != legs.rend(),
          "the run begins with sample {}: look for sample {} in the run that it continues",
          legs.front().begin.samples, sample);
  return *leg;
}

}  // namespace trireme
