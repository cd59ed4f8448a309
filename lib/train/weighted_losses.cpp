#include "lib/train/weighted_losses.hpp"

#include <algorithm>
#include <cmath>

namespace trireme {

std::int64_t weight_quanta(float weight) {
  return static_cast<std::int64_t>(std::ldexp(static_cast<double>(weight), weight_bits));
}

WeightSum& WeightSum::operator+=(const WeightSum& x) {
  quanta += x.quanta;
  largest = std::max(largest, x.largest);
  return *this;
}

WeightSum weight_sum(const Batch& share) {
  expect(share.weight_BT.size() == share.targets_BT.size(), "each target has a weight");
  WeightSum sum;
  for (std::size_t i = 0; i < share.targets_BT.size(); ++i) {
    const float weight = share.weight_BT[i];
    if (share.targets_BT[i] != no_target)
      sum += {weight_quanta(weight), static_cast<double>(weight)};
  }
  return sum;
}

double weight_of(fixed::Int128 quanta) {
  return fixed::to_double(quanta, weight_bits);
}

WeightedRows weighted_rows(const Batch& share, double all) {
  WeightedRows w;
  const auto add = [&](float weight) {
    const auto begin = w.rows.empty() ? 0 : w.rows.back().rows.end;
    w.rows.push_back({{begin, begin}, std::ssize(w.rows), static_cast<double>(weight) / all});
    w.weights.push_back(weight);
  };
  bool has_target = false;  // in the newest range
  for (std::size_t i = 0; i < share.targets_BT.size(); ++i) {
    // Rows without a target belong to any range.
    const bool target = share.targets_BT[i] != no_target;
    const float weight = share.weight_BT[i];
    if (w.rows.empty() || (target && has_target && weight != w.weights.back())) add(weight);
    if (target && !has_target) {
      w.weights.back() = weight;
      w.rows.back().scale = static_cast<double>(weight) / all;
    }
    has_target = has_target || target;
    w.rows.back().rows.end = static_cast<std::int64_t>(i) + 1;
  }
  return w;
}

}  // namespace trireme
