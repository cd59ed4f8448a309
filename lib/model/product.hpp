#pragma once
// A product with a weight of the model.
#include <memory>

#include "lib/autograd/op.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// y = x w' + bias, with the weight's adapter where it has one; `bias` of value -1: none.
std::unique_ptr<Op> make_product(const ModelSpec&, ParamId weight, ParamId bias = {});

}  // namespace trireme
