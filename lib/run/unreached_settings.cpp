#include "lib/run/unreached_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lib/base/counted.hpp"
#include "lib/run/schedule.hpp"
#include "lib/run/skip_rules.hpp"

namespace trireme {
namespace {

std::string about_ramp(const TrainConfig& t, const BatchRamp& ramp, RunPoint end) {
  if (t.batch_ramp.empty() || ramp.batch(end.steps - 1) == t.batch) return {};
  return fmt::format(
      "train.batch_ramp has \"{}\", but the run ends before, after {} and {}: no step has "
      "train.batch = {} samples. Lower the ends of train.batch_ramp, or train longer",
      t.batch_ramp.back(), counted(end.steps, "step"), counted(end.tokens, "token"), t.batch);
}

std::string about_skipped(const TrainConfig& t, RunPoint end) {
  std::vector<std::string> beyond;
  const auto ranges = parse_step_ranges(t.skip_steps);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].first > end.steps) beyond.push_back(fmt::format("\"{}\"", t.skip_steps[i]));
  if (beyond.empty()) return {};
  return fmt::format(
      "train.skip_steps contains {}, but the run has only {}, counted from 1: remove {}, or train "
      "longer",
      fmt::join(beyond, " and "), counted(end.steps, "step"), beyond.size() == 1 ? "it" : "them");
}

std::string about_limits(const TrainConfig& t, RunPoint end) {
  const auto needed = needed_steps(t.skip_window);
  if (t.skip_above == 0 || end.steps > needed) return {};
  return fmt::format(
      "train.skip_above = {} skips no step: it needs the numbers of {} first (half of "
      "train.skip_window = {}), and the run has {}. Lower train.skip_window, or train longer",
      t.skip_above, counted(needed, "step"), t.skip_window,
      end.steps == needed ? "no more" : fmt::format("only {}", end.steps));
}

// Names the first decay that is shorter than the schedule says, because the decay before it, or the
// warmup, ends too late.
std::string about_decays(const ScheduleConfig& s, const BatchRamp& ramp, RunPoint end) {
  const std::string unit = counts_tokens(s) ? "token" : "step", key = "schedule.decay_end_" + unit;
  const auto total = in_unit(s, end);
  auto points = decay_ends_of(s);
  std::erase_if(points, [&](std::int64_t point) { return point >= total; });
  if (points.empty()) return {};
  points.push_back(total);
  auto begin = warmup_of(s);
  for (std::size_t i = 0; i < points.size(); begin = points[i++]) {
    const auto point = points[i], room = point - begin;
    const bool given = decay_of(s) > 0;
    const auto length = given ? decay_of(s) : std::max<std::int64_t>(1, point / 10);
    const auto after = i == 0 ? "the warmup" : "the decay before";
    const auto at = i + 1 == points.size() ? "the end of the run" : fmt::format("{}", point);
    if (i > 0 && counts_tokens(s) && ramp.steps_at(begin) == ramp.steps_at(point))
      return fmt::format(
          "{}s: the same step reaches {} and {}, so the decay before {} has no room. Remove one of "
          "them",
          key, begin, at, at);
    if (room < length)
      return fmt::format(
          "{}s: the decay before {} lasts only {}, because {} ends at {}. It should last {} ({}). "
          "Move the points apart, or {} schedule.decay_{}s",
          key, at, counted(room, unit), after, begin, counted(length, unit),
          given ? fmt::format("schedule.decay_{}s", unit) : "a tenth of the run up to this point",
          given ? "lower" : "set", unit);
  }
  return {};
}

// The first weights have the share ema^n of the average after n updates. If the average reaches
// back over a quarter of the run, 1 / (1 - ema) = n / 4, this share is about exp(-4), 2%. A larger
// share is usually not intended.
std::string about_average(const TrainConfig& t, RunPoint end) {
  const auto steps = static_cast<double>(end.steps);
  const double share = std::pow(t.ema, steps);
  if (t.ema == 0 || share <= std::exp(-4.0)) return {};
  // 1 - ema of a quarter, rounded up to one digit.
  const double quarter = 4 / std::max(1.0, steps),
               digit = std::pow(10, std::floor(std::log10(quarter)));
  const double usable = 1 - std::ceil(quarter / digit - 1e-9) * digit;
  return fmt::format(
      "train.ema = {} averages over about {:.0f} steps, but the run has {}: at its end, the first "
      "weights are {:.3g}% of the average. {}, or train longer",
      t.ema, 1 / (1 - t.ema), counted(end.steps, "step"), 100 * share,
      usable > 0 ? fmt::format("Lower train.ema to {:.6g} or less", usable)
                 : std::string("Set train.ema = 0"));
}

}  // namespace

std::vector<std::string> unreached_settings(const TrainConfig& t, const ScheduleConfig& s,
                                            std::int64_t context, RunPoint begin) {
  const BatchRamp ramp(t, context, begin);
  const auto end = end_of_run(t, context, begin);
  std::vector<std::string> all{about_ramp(t, ramp, end), about_skipped(t, end),
                               about_limits(t, end), about_decays(s, ramp, end),
                               about_average(t, end)};
  std::erase_if(all, [](const std::string& text) { return text.empty(); });
  return all;
}

}  // namespace trireme
