#pragma once
// The sums over all ranks in a step or an evaluation: losses and gradient norms. They are added in
// a fixed order in floating point, or in any order as fixed-point numbers (lib/base/fixed.hpp). All
// functions are collective over `world`, and results are equal on every rank.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lib/base/fixed.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/model/spec.hpp"
#include "lib/shard/gradients.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// A sum of losses and the number of targets in it.
struct LossSum {
  double sum = 0;
  std::int64_t valid = 0;
  // The sum as fixed-point number, if losses are added this way.
  std::optional<fixed::Int128> quanta{};

  // Returns a sum from its fixed-point number.
  static LossSum counted(fixed::Int128 quanta, std::int64_t valid);
  LossSum& operator+=(const LossSum&);
  double mean() const { return sum / static_cast<double>(valid); }
};

// The losses of this rank's micro-batches, summed in order or as a fixed-point number.
struct Losses {
  double sum = 0;
  fixed::Int128 quanta = 0;
  // Upper bound on the fixed-point sum's magnitude; infinite if a loss is not finite.
  double largest = 0;
};
// Returns the sum of `losses`. `tokens` is the maximum number of terms in a fixed-point sum.
Losses download(const Communicator& world, Backend&, std::span<const Tensor> losses,
                std::int64_t tokens);

// The sums of a step over all ranks.
struct StepSums {
  double loss = 0;     // over valid targets
  double squares = 0;  // squared norm of all gradients; not finite if a gradient is not finite
  std::optional<std::size_t> not_finite;  // ParamId of the first gradient that is not finite
  std::string overflow;  // Reason why fixed-point sums may have overflowed. Empty if they have not.
};
// Add a step's sums over all ranks: add_in_order() in floating point in a fixed order, add_counts()
// as fixed-point numbers.
StepSums add_in_order(const Communicator& world, GradientNorms, const Losses&);
StepSums add_counts(const Communicator& world, const ModelSpec&, GradientNorms, const Losses&);

// The sums of an evaluation. `overflow` is as in StepSums.
struct EvaluationSums {
  LossSum loss;
  std::string overflow;
};
// Adds an evaluation's losses over all ranks. `counted` adds them as fixed-point numbers.
EvaluationSums add_losses(const Communicator& world, const Losses&, std::int64_t valid,
                          bool counted);

}  // namespace trireme
