#pragma once
// Names of the arrays that hold one number per parameter element. The parameter store, checkpoints
// and digest tables use them. Optimizers name their own arrays in kernels/update_rule.hpp.
#include <string_view>

namespace trireme {

// The master weights. Every parameter has them.
inline constexpr std::string_view weights_array = "weights";
// Arrays that appear only in digest tables: the gradients, and the copies of the weights in the
// compute type, where such copies exist.
inline constexpr std::string_view gradients_array = "gradients", copies_array = "copies";

}  // namespace trireme
