#include "lib/shard/freeze.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "lib/base/pattern.hpp"

namespace trireme {

static std::int64_t end_of(const FreezeRule& r) {
  return r.to_step == 0 ? std::numeric_limits<std::int64_t>::max() : r.to_step;
}

FreezeSchedule::FreezeSchedule(std::span<const FreezeRule> rules, const ModelSpec& spec)
    : spans_(spec.params.size()) {
  std::vector<FreezeRule> by_begin(rules.rbegin(), rules.rend());
  std::ranges::stable_sort(by_begin, {}, &FreezeRule::from_step);
  for (std::size_t i = 0; i < spans_.size(); ++i)
    for (const auto& r : by_begin) {
      if (!matches(r.pattern, spec.params[i].name)) continue;
      auto& spans = spans_[i];
      if (!spans.empty() && r.from_step <= spans.back().end)
        spans.back().end = std::max(spans.back().end, end_of(r));
      else
        spans.push_back({r.from_step, end_of(r), r.moments});
    }
}

std::vector<FreezeState> FreezeSchedule::at(std::int64_t step) const {
  std::vector<FreezeState> all(spans_.size());
  for (std::size_t i = 0; i < spans_.size(); ++i)
    for (const auto& [begin, end, moments] : spans_[i])
      if (begin <= step && step <= end)  // in step `end`, it is trained again
        all[i] = {step == end, moments == ThawMoments::keep};
  return all;
}

std::vector<std::int64_t> FreezeSchedule::borders(std::int64_t after, std::int64_t end) const {
  std::set<std::int64_t> steps;
  for (const auto& spans : spans_)
    for (const auto& s : spans) steps.insert({s.begin, s.end});
  std::vector<std::int64_t> inside;
  std::ranges::copy_if(steps, std::back_inserter(inside),
                       [&](std::int64_t s) { return after < s && s < end; });
  return inside;
}

std::string parameters_text(const ModelSpec& spec, std::span<const FreezeRule> rules,
                            std::int64_t step) {
  const FreezeSchedule schedule(rules, spec);
  const auto states = schedule.at(step);
  const auto all = spec.parameter_count();
  std::int64_t trained = 0;
  for (std::size_t i = 0; i < states.size(); ++i)
    if (states[i].trained && is_saved(spec.params[i])) trained += spec.params[i].shape.count();
  const auto millions = [](std::int64_t n) { return static_cast<double>(n) * 1e-6; };
  const bool changes = !schedule.borders(step, std::numeric_limits<std::int64_t>::max()).empty();
  const auto active = spec.active_parameter_count();
  return fmt::format(
      "{:.2f}M parameters{}, {} trained{}", millions(all),
      active == all ? "" : fmt::format(" ({:.2f}M active per token)", millions(active)),
      trained == all ? "all" : fmt::format("{:.2f}M of them", millions(trained)),
      changes ? " at first" : "");
}

}  // namespace trireme
