#include "lib/run/skip_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

std::vector<StepRange> parse_step_ranges(std::span<const std::string> texts) {
  std::vector<StepRange> ranges;
  for (const auto& text : texts) {
    const auto range = number_range(text, 1);
    require(range.has_value(),
            "\"{}\" is neither a step, such as \"7\", nor a range of steps, such as \"1200-1210\"",
            text);
    ranges.push_back(*range);
  }
  return ranges;
}

std::int64_t needed_steps(std::int64_t skip_window) {
  return std::max<std::int64_t>(2, (skip_window + 1) / 2);
}

SkipRules::SkipRules(const TrainConfig& t, BatchRamp ramp, std::string conditions,
                     std::vector<std::int64_t> borders, const std::string& state)
    : listed_(parse_step_ranges(t.skip_steps)),
      ramp_(std::move(ramp)),
      conditions_(std::move(conditions)),
      borders_(std::move(borders)),
      above_(t.skip_above),
      window_(static_cast<std::size_t>(t.skip_window)),
      batch_(ramp_.batch(0)) {
  const auto lines = split(state, '\n');
  const auto space = lines.front().find(' ');
  if (space == std::string_view::npos || lines.front().substr(space + 1) != conditions_) return;
  batch_ = number_in<std::int64_t>(lines.front().substr(0, space)).value_or(0);
  for (const auto line : std::span(lines).subspan(1)) {
    const auto fields = split(line, ' ');
    if (fields.size() != 2) continue;
    const auto loss = number_in<double>(fields[0]), norm = number_in<double>(fields[1]);
    if (loss && norm) add(*loss, *norm);
  }
}

std::string SkipRules::state() const {
  if (above_ == 0) return {};
  std::string text = fmt::format("{} {}", batch_, conditions_);
  for (const auto& [loss, norm] : newest_) text += fmt::format("\n{} {}", loss, norm);
  return text;
}

bool SkipRules::lists(std::int64_t step) const {
  return std::ranges::any_of(listed_,
                             [&](const auto& r) { return r.first <= step && step <= r.last; });
}

void SkipRules::add(double loss, double grad_norm) {
  newest_.push_back({loss, grad_norm});
  if (newest_.size() > window_) newest_.pop_front();
}

StepLimits SkipRules::limits(std::int64_t completed) {
  const auto batch = std::exchange(batch_, ramp_.batch(completed));
  if (batch != batch_ || std::ranges::find(borders_, completed) != borders_.end()) newest_.clear();
  if (above_ == 0 || std::ssize(newest_) < needed_steps(static_cast<std::int64_t>(window_)))
    return {};
  const auto limit = [&](double Numbers::*number) {
    // Rounding alone moves numbers that hardly vary.
    constexpr double least_deviation = 1e-4;
    const auto n = static_cast<double>(newest_.size());
    double mean = 0, squares = 0;
    for (const auto& one : newest_) mean += one.*number / n;
    for (const auto& one : newest_) squares += (one.*number - mean) * (one.*number - mean);
    return mean +
           above_ * std::max(std::sqrt(squares / (n - 1)), least_deviation * std::fabs(mean));
  };
  return {limit(&Numbers::loss), limit(&Numbers::grad_norm)};
}

}  // namespace trireme
