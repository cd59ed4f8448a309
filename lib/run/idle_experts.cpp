#include "lib/run/idle_experts.hpp"

#include <fmt/format.h>

#include "lib/base/counted.hpp"

namespace trireme {

static std::string_view advice(Balance b) {
  switch (b) {
    case Balance::none:
      return "set train.balance";
    case Balance::sample:
      return "raise train.balance_weight";
    case Balance::bias:
      return "raise train.balance_rate";
  }
  return {};
}

std::string IdleExperts::after(const Routing& routing, Balance balance) {
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
  return fmt::format("{} received no tokens in {} steps, the first is {}: see routing.csv, and {}",
                     counted(found, "expert"), patience, first, advice(balance));
}

}  // namespace trireme
