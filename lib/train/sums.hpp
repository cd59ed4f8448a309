#pragma once
// Sums over all ranks in a step or an evaluation: losses and gradient norms. Losses and norms are
// added in a fixed order in floating point, or in any order as fixed-point numbers
// (lib/base/fixed.hpp). All functions are collective over `world`. Their results are equal on every
// rank.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lib/base/fixed.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/model/spec.hpp"
#include "lib/shard/gradients.hpp"
#include "lib/tensor/tensor.hpp"
#include "lib/train/weighted_losses.hpp"

namespace trireme {

// A sum of losses and the number of targets in it.
struct LossSum {
  double sum = 0;
  std::int64_t valid = 0;
  // The sum as a fixed-point number. Absent if losses are added in floating point.
  std::optional<fixed::Int128> quanta{};

  // Converts a fixed-point sum to a LossSum.
  static LossSum counted(fixed::Int128 quanta, std::int64_t valid);
  LossSum& operator+=(const LossSum&);
  double mean() const { return sum / static_cast<double>(valid); }
};

// The losses of this rank's micro-batches, summed in order or as a fixed-point number.
struct Losses {
  double sum = 0;
  fixed::Int128 quanta = 0;
  int bits = fixed::loss_bits;  // the fixed-point number is a multiple of 2^-bits
  // Upper bound on the magnitude of the fixed-point sum. Infinite if a loss is not finite.
  double largest = 0;
};
// Copies `losses` to the host and adds them. `tokens` is the maximum number of terms in a
// fixed-point sum.
Losses download(const Communicator& world, Backend&, std::span<const Tensor> losses,
                std::int64_t tokens);

// Does the same for losses with one sum for each range of WeightedRows, and multiplies each sum by
// the weight of its range. `losses` is empty on stages without the head.
Losses download_weighted(const Communicator& world, Backend&, std::span<const Tensor> losses,
                         std::span<const WeightedRows>, std::int64_t tokens);

// Sums of a step over all ranks.
struct StepSums {
  double loss = 0;     // over valid targets, weighted if documents have weights
  double squares = 0;  // squared norm of all gradients; not finite if a gradient is not finite
  std::optional<std::size_t> not_finite;  // ParamId of the first gradient that is not finite
  std::string overflow;  // Reason why fixed-point sums may have overflowed. Empty if they have not.
};
// Add a step's sums over all ranks. add_in_order() adds in floating point, in a fixed order.
// add_counts() adds fixed-point numbers.
StepSums add_in_order(const Communicator& world, GradientNorms, const Losses&);
StepSums add_counts(const Communicator& world, const ModelSpec&, GradientNorms, const Losses&);

// Sums of an evaluation. `overflow` has the same meaning as in StepSums.
struct EvaluationSums {
  LossSum loss;
  std::string overflow;
};
// Adds an evaluation's losses over all ranks. If `counted` is true, they are added as fixed-point
// numbers.
EvaluationSums add_losses(const Communicator& world, const Losses&, std::int64_t valid,
                          bool counted);

}  // namespace trireme
