#pragma once
// Names of the arrays that hold one number per parameter element. The parameter store, checkpoints
// and digest tables use them. Optimizers name their own arrays in kernels/update_rule.hpp.
#include <string_view>

namespace trireme {

// Name of the array of master weights. Every parameter has this array.
inline constexpr std::string_view weights_array = "weights";
// Name of the array of averaged weights (train.ema). Only parameters with optimizer arrays have it.
inline constexpr std::string_view average_array = "ema";
// Names of arrays that appear only in digest tables: the gradients, and the copies of the weights
// in the compute type. Parameters without such copies have no `copies` array.
inline constexpr std::string_view gradients_array = "gradients", copies_array = "copies";

}  // namespace trireme
