#pragma once
// Weights of documents (Batch::weight_BT). The loss of a step is the sum over valid targets of
// weight times loss, divided by the sum of their weights. Weights are multiples of 2^-43 and at
// most 2^16 (lib/data/token_file.hpp), so sums of weights are exact integers and do not depend on
// the order of addition or on the grid. All functions are pure.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/base/fixed.hpp"
#include "lib/data/dataset.hpp"

namespace trireme {

// Convert between a weight, or a sum of weights, and an integer multiple of 2^-weight_bits.
std::int64_t weight_quanta(float);
double weight_of(fixed::Int128 quanta);

// The sum of the weights of targets, as a multiple of 2^-weight_bits, and the largest of the
// weights.
struct WeightSum {
  fixed::Int128 quanta = 0;
  double largest = 0;

  WeightSum& operator+=(const WeightSum&);
};
// Returns the sum over a share's valid targets.
WeightSum weight_sum(const Batch& share);

// The rows of one micro-batch, grouped so that all targets of a range have the same weight. Range i
// adds its losses to sum i. Its gradients are multiplied by its weight, divided by `all`, which is
// the sum of the weights in the step.
struct WeightedRows {
  std::vector<LossRows> rows;
  std::vector<float> weights;  // by range
};
WeightedRows weighted_rows(const Batch& share, double all);

}  // namespace trireme
