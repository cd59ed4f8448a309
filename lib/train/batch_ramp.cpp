#include "lib/train/batch_ramp.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

#include "lib/base/error.hpp"
#include "lib/base/limits.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {
namespace {

constexpr auto most = std::numeric_limits<std::int64_t>::max();

std::int64_t times(std::int64_t a, std::int64_t b) {
  return b > 0 && a > most / b ? most : a * b;
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return a > most - b ? most : a + b;
}

std::int64_t quotient_up(std::int64_t a, std::int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

// Parses a count such as "1000" or "5e9".
std::optional<std::int64_t> count_in(std::string_view text) {
  const auto x = number_in<double>(text);
  if (!x || *x < 1 || *x > double{most_counted} || *x != std::floor(*x)) return std::nullopt;
  return static_cast<std::int64_t>(*x);
}

std::optional<RampLevel> level_in(std::string_view text) {
  const auto words = split(text, ' ');
  if (words.size() != 4 || words[1] != "until" || (words[3] != "steps" && words[3] != "tokens"))
    return std::nullopt;
  const auto batch = count_in(words[0]), until = count_in(words[2]);
  if (!batch || !until) return std::nullopt;
  return RampLevel{*batch, *until, words[3] == "steps" ? RampUnit::steps : RampUnit::tokens};
}

}  // namespace

std::vector<RampLevel> parse_batch_ramp(std::span<const std::string> texts) {
  std::vector<RampLevel> levels;
  for (const auto& text : texts) {
    const auto level = level_in(text);
    require(level.has_value(),
            "\"{}\" is not a batch with the end of its steps, such as \"16 until 1000 steps\" or "
            "\"256 until 5e9 tokens\"",
            text);
    if (!levels.empty()) {
      const auto& before = levels.back();
      require(level->unit == before.unit,
              "\"{}\" and the entry before it have different units: use {}", text,
              before.unit == RampUnit::steps ? "steps" : "tokens");
      require(level->batch > before.batch && level->until > before.until,
              "\"{}\" must have a larger batch and a later end than the entry before it", text);
    }
    levels.push_back(*level);
  }
  return levels;
}

std::vector<std::int64_t> batches_of(const TrainConfig& t) {
  std::vector<std::int64_t> batches;
  for (const auto& level : parse_batch_ramp(t.batch_ramp)) batches.push_back(level.batch);
  batches.push_back(t.batch);
  return batches;
}

std::int64_t common_batch(const TrainConfig& t) {
  std::int64_t common = 0;
  for (const auto batch : batches_of(t)) common = std::gcd(common, batch);
  return common;
}

BatchRamp::BatchRamp(const TrainConfig& t, std::int64_t context, RunPoint begin)
    : context_(context), begin_(begin) {
  parts_.clear();
  auto at = begin;
  for (const auto& level : parse_batch_ramp(t.batch_ramp)) {
    const auto left = level.unit == RampUnit::steps
                          ? level.until - at.steps
                          : quotient_up(level.until - at.tokens, times(level.batch, context));
    if (left <= 0) continue;
    at.steps += left;
    at.tokens = plus(at.tokens, times(left, times(level.batch, context)));
    parts_.push_back({level.batch, at.steps});
  }
  parts_.push_back({.batch = t.batch});
}

const BatchRamp::Part& BatchRamp::part_of(std::int64_t step) const {
  return *std::ranges::find_if(parts_, [&](const Part& p) { return step < p.end; });
}

std::int64_t BatchRamp::batch(std::int64_t step) const {
  return part_of(step).batch;
}

std::int64_t BatchRamp::next_change(std::int64_t step) const {
  return part_of(step).end;
}

std::int64_t BatchRamp::samples(std::int64_t first, std::int64_t end) const {
  std::int64_t all = 0;
  auto at = std::max(first, begin_.steps);
  for (const auto& part : parts_) {
    const auto until = std::min(end, part.end);
    if (until <= at) continue;
    all = plus(all, times(until - at, part.batch));
    at = until;
  }
  return all;
}

std::int64_t BatchRamp::steps_for(std::int64_t samples) const {
  auto at = begin_.steps;
  for (const auto& part : parts_) {
    if (samples <= 0) break;
    const auto count = std::min(part.end - at, quotient_up(samples, part.batch));
    samples -= std::min(samples, times(count, part.batch));
    at += count;
  }
  return at - begin_.steps;
}

std::int64_t BatchRamp::steps_at(std::int64_t tokens) const {
  const auto left = std::max<std::int64_t>(0, tokens - begin_.tokens);
  return begin_.steps + steps_for(quotient_up(left, context_));
}

RunPoint BatchRamp::point(std::int64_t steps) const {
  if (steps < begin_.steps) {
    const auto earlier = times(begin_.steps - steps, times(batch(steps), context_));
    return {steps, std::max<std::int64_t>(0, begin_.tokens - earlier)};
  }
  return {steps, plus(begin_.tokens, times(samples(begin_.steps, steps), context_))};
}

std::int64_t total_steps(const TrainConfig& t, std::int64_t context, RunPoint begin) {
  return t.steps > 0 ? t.steps : BatchRamp(t, context, begin).steps_at(t.tokens);
}

RunPoint end_of_run(const TrainConfig& t, std::int64_t context, RunPoint begin) {
  return BatchRamp(t, context, begin).point(total_steps(t, context, begin));
}

}  // namespace trireme
