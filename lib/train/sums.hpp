#pragma once
// What a step or an evaluation comes to over all ranks, as sums in order or as counts of quanta
// (lib/base/fixed.hpp). Collective over `world`; the results are equal on every rank.
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

struct LossSum {
  double sum = 0;
  std::int64_t valid = 0;
  std::optional<fixed::Int128> quanta{};  // the sum as a count, where losses are counted

  static LossSum counted(fixed::Int128 quanta, std::int64_t valid);
  LossSum& operator+=(const LossSum&);
  double mean() const { return sum / static_cast<double>(valid); }
};

// This rank's microbatches' losses: in their order, or as a count of quanta.
struct Losses {
  double sum = 0;
  fixed::Int128 quanta = 0;
  double largest = 0;  // that a sum of counts could have come to; infinite where one is not finite
};
// `tokens`: the most terms that a count may have.
Losses download(const Communicator& world, Backend&, std::span<const Tensor> losses,
                std::int64_t tokens);

struct StepSums {
  double loss = 0;                        // over valid targets
  double squares = 0;                     // of all gradients; not finite where one of them is not
  std::optional<std::size_t> not_finite;  // ParamId of the first such gradient
  std::string overflow;                   // counts cannot be true: why; empty: they are
};
StepSums add_in_order(const Communicator& world, GradientNorms, const Losses&);
StepSums add_counts(const Communicator& world, const ModelSpec&, GradientNorms, const Losses&);

// Of an evaluation; `overflow` as above.
struct EvaluationSums {
  LossSum loss;
  std::string overflow;
};
EvaluationSums add_losses(const Communicator& world, const Losses&, std::int64_t valid,
                          bool counted);

}  // namespace trireme
