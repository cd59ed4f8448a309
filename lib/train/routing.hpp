#pragma once
// Statistics of a model's routers in one step over all ranks, and the change of router biases that
// follows from the statistics.
#include <cstdint>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/model/spec.hpp"
#include "lib/ops/router.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Statistics of all routers in one step, equal on every rank. With exact sums, they do not depend
// on how the model is distributed. Empty for a model without experts.
struct Routing {
  std::vector<std::int64_t> layers;  // blocks with experts
  // For each of these blocks, the number of tokens that chose each expert.
  std::vector<std::vector<std::int64_t>> loads;
  // Mean over tokens and layers of the balancing loss (1 for even loads) and of the squared
  // log-sum-exp of router logits. A loss that is not part of the objective is 0. NaN means that the
  // sum exceeds the range of fixed-point numbers.
  double balance = 0, z = 0;
  // Number of rounds beyond the first in which tokens are sent to experts, summed over layers and
  // micro-batches. The value is that of the rank with the most rounds.
  std::int64_t more_rounds = 0;
};

// The router totals of one step on this rank, in the backend's memory.
class RoutingSums {
 public:
  // If `exact` is true, losses are summed as fixed-point numbers.
  RoutingSums(Backend&, const ModelSpec&, bool exact);
  RoutingSums(const RoutingSums&) = delete;
  RoutingSums& operator=(const RoutingSums&) = delete;
  // Returns the totals to which ops add during a step, or null for a model without experts.
  const RoutingTotals* totals() const { return loads_ ? &totals_ : nullptr; }
  // Returns the statistics of a step with `tokens` tokens over all ranks, without padding.
  // Collective.
  Routing read(const Communicator& world, std::int64_t tokens) const;

 private:
  Backend& backend_;
  const ModelSpec& spec_;
  Tensor loads_, losses_, largest_;
  std::int64_t more_rounds_ = 0;
  RoutingTotals totals_;
};

// Returns the change of each expert's bias (DeepSeek-V3): `rate` if the expert's load is below the
// mean, and -`rate` if the load is above the mean.
std::vector<double> bias_change(const std::vector<std::int64_t>& loads, double rate);

}  // namespace trireme
