#pragma once
// Functions that create the op for a product with one of the model's weights.
#include <memory>
#include <optional>

#include "lib/autograd/op.hpp"
#include "lib/model/spec.hpp"
#include "lib/ops/linear.hpp"
#include "lib/ops/low_rank.hpp"

namespace trireme {

// Returns an op that computes y = x w' + bias, without an adapter. If there is no bias, `bias` is
// -1.
ops::Linear make_linear(const ModelSpec&, ParamId weight, ParamId bias);
// Returns the weight's adapter, if it has one.
std::optional<ops::LowRank> low_rank_of(const ModelSpec&, ParamId weight);
// Returns an op that computes y = x w' + bias, plus the weight's adapter if it has one. If there is
// no bias, `bias` is -1.
std::unique_ptr<Op> make_product(const ModelSpec&, ParamId weight, ParamId bias = {});

}  // namespace trireme
