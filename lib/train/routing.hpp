#pragma once
// What the routers of a model did in a step, over all ranks, and the bias that answers it.
#include <cstdint>
#include <vector>

#include "lib/comm/communicator.hpp"
#include "lib/model/spec.hpp"
#include "lib/ops/router.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Equal on every rank, and with exact sums on every layout. Empty for a model without experts.
struct Routing {
  std::vector<std::int64_t> layers;              // with experts
  std::vector<std::vector<std::int64_t>> loads;  // of each, by expert: choices of the step's tokens
  // Mean over tokens and layers of the balance loss, 1 for even loads, and of the square of log sum
  // exp; 0 where it is not trained for, NaN where it is more than counts hold.
  double balance = 0, z = 0;
  // Rounds of tokens beyond the first, by the rank with the most, over layers and microbatches.
  std::int64_t more_rounds = 0;
};

// One step's totals on this rank, in memory of the backend.
class RoutingSums {
 public:
  // exact: losses are counted as quanta.
  RoutingSums(Backend&, const ModelSpec&, bool exact);
  RoutingSums(const RoutingSums&) = delete;
  RoutingSums& operator=(const RoutingSums&) = delete;
  // What ops add to; null for a model without experts.
  const RoutingTotals* totals() const { return loads_ ? &totals_ : nullptr; }
  // Collective: of a step of `tokens` over all ranks, without padding.
  Routing read(const Communicator& world, std::int64_t tokens) const;

 private:
  Backend& backend_;
  const ModelSpec& spec_;
  Tensor loads_, losses_, largest_;
  std::int64_t more_rounds_ = 0;
  RoutingTotals totals_;
};

// DeepSeek-V3: an expert's bias rises by `rate` where its load is below the mean, and falls where
// it is above.
std::vector<double> bias_change(const std::vector<std::int64_t>& loads, double rate);

}  // namespace trireme
