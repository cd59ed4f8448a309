#pragma once
// Ops for matrix products with weights of the model.
#include <memory>

#include "lib/autograd/op.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// Returns an op that computes y = x w' + bias, plus the weight's adapter if it has one. A `bias` of
// value -1 means no bias.
std::unique_ptr<Op> make_product(const ModelSpec&, ParamId weight, ParamId bias = {});

}  // namespace trireme
