#include "lib/run/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {

double learning_rate(const ScheduleConfig& s, double peak, std::int64_t step,
                     std::int64_t total_steps) {
  if (step < s.warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  if (s.shape == ScheduleShape::constant) return peak;
  const bool at_end = s.shape == ScheduleShape::wsd;
  const auto after_warmup = std::max<std::int64_t>(1, total_steps - s.warmup_steps);
  auto length = s.decay_steps > 0 ? s.decay_steps
                : at_end          ? std::max<std::int64_t>(1, total_steps / 10)
                                  : after_warmup;
  if (at_end) length = std::min(length, after_warmup);
  // If the decay is at the end, all its steps are below the peak. The step before the decay is at
  // the peak.
  const auto begin = at_end ? total_steps - length - 1 : s.warmup_steps;
  if (at_end) ++length;
  const double done =
      std::clamp(static_cast<double>(step - begin) / static_cast<double>(length), 0.0, 1.0);
  const double left =
      s.shape == ScheduleShape::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done;
  return s.min_lr + (peak - s.min_lr) * left;
}

}  // namespace trireme
