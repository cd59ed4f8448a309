#include "lib/run/idle_experts.hpp"

#include <fmt/format.h>

#include "lib/base/counted.hpp"

namespace trireme {

std::string IdleExperts::after(const Routing& routing) {
  std::int64_t found = 0;
  std::string first;
  for (std::size_t l = 0; l < routing.layers.size(); ++l)
    for (std::size_t e = 0; e < routing.loads[l].size(); ++e) {
      auto& steps = idle_[{routing.layers[l], static_cast<std::int64_t>(e)}];
      steps = routing.loads[l][e] == 0 ? steps + 1 : 0;
      if (steps != patience) continue;
      if (++found == 1) first = fmt::format("expert {} of block {}", e, routing.layers[l]);
    }
  if (found == 0) return {};
  return fmt::format(
      "{} got no token in {} steps, the first is {}: see routing.csv, and try another "
      "train.balance or a higher train.balance_weight",
      counted(found, "expert"), patience, first);
}

}  // namespace trireme
