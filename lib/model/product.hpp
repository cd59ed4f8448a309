#pragma once
// Function that creates the op for a product with one of the model's weights.
#include <memory>

#include "lib/autograd/op.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// Returns an op that computes y = x w' + bias, plus the weight's adapter if it has one. A `bias` of
// -1 means no bias.
std::unique_ptr<Op> make_product(const ModelSpec&, ParamId weight, ParamId bias = {});

}  // namespace trireme
