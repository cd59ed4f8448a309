#include "lib/run/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {

StepOfRun step_of_run(const BatchRamp& ramp, std::int64_t step, std::int64_t total_steps) {
  return {ramp.point(step), ramp.point(step + 1), ramp.point(total_steps)};
}

bool counts_tokens(const ScheduleConfig& s) {
  return s.warmup_tokens > 0 || s.decay_tokens > 0 || !s.decay_end_tokens.empty();
}

std::int64_t in_unit(const ScheduleConfig& s, RunPoint p) {
  return counts_tokens(s) ? p.tokens : p.steps;
}

std::int64_t warmup_of(const ScheduleConfig& s) {
  return counts_tokens(s) ? s.warmup_tokens : s.warmup_steps;
}

std::int64_t decay_of(const ScheduleConfig& s) {
  return counts_tokens(s) ? s.decay_tokens : s.decay_steps;
}

const std::vector<std::int64_t>& decay_ends_of(const ScheduleConfig& s) {
  return counts_tokens(s) ? s.decay_end_tokens : s.decay_end_steps;
}

static double rate(const ScheduleConfig& s, double peak, std::int64_t done, std::int64_t length) {
  const double part = std::clamp(static_cast<double>(done) / static_cast<double>(length), 0.0, 1.0);
  const double left =
      s.shape == ScheduleShape::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * part)) : 1 - part;
  return s.min_lr + (peak - s.min_lr) * left;
}

double learning_rate(const ScheduleConfig& s, double peak, const StepOfRun& step) {
  const auto warmup = warmup_of(s), decay = decay_of(s);
  const auto before = in_unit(s, step.before), after = in_unit(s, step.after),
             total = in_unit(s, step.end);
  if (before < warmup)
    return peak * std::min(1.0, static_cast<double>(after) / static_cast<double>(warmup));
  if (s.shape == ScheduleShape::constant) return peak;
  const auto after_warmup = std::max<std::int64_t>(1, total - warmup);
  if (s.shape != ScheduleShape::wsd)
    return rate(s, peak, before - warmup, decay > 0 ? decay : after_warmup);
  auto begin = warmup, end = total;  // of the part of the run that ends with this decay
  for (const auto point : decay_ends_of(s)) {
    if (point <= before) begin = std::max(begin, point);
    if (before < point) end = std::min(end, point);
  }
  const auto length = std::min(decay > 0 ? decay : std::max<std::int64_t>(1, end / 10),
                               std::max<std::int64_t>(1, end - begin));
  // All steps of the decay are below the peak, and the step after it would have min_lr.
  return rate(s, peak, after - (end - length), length + (after - before));
}

std::vector<std::int64_t> steps_of_decay_ends(const ScheduleConfig& s, const BatchRamp& ramp) {
  auto ends = decay_ends_of(s);
  if (counts_tokens(s))
    for (auto& end : ends) end = ramp.steps_at(end);
  return ends;
}

std::int64_t decays_between(const ScheduleConfig& s, RunPoint begin, RunPoint end) {
  return std::ranges::count_if(decay_ends_of(s), [&](std::int64_t point) {
    return in_unit(s, begin) < point && point < in_unit(s, end);
  });
}

bool ends_decay(const ScheduleConfig& s, const StepOfRun& step) {
  const auto& ends = decay_ends_of(s);
  if (ends.empty()) return false;
  const auto before = in_unit(s, step.before), after = in_unit(s, step.after);
  const auto is_here = [&](std::int64_t point) { return before < point && point <= after; };
  return is_here(in_unit(s, step.end)) || std::ranges::any_of(ends, is_here);
}

}  // namespace trireme
