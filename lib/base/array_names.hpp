#pragma once
// Names of arrays of a parameter's elements: in the store, checkpoints and tables of digests. An
// optimizer's have its own (kernels/update_rule.hpp).
#include <string_view>

namespace trireme {

// The master weights, which every parameter has.
inline constexpr std::string_view weights_array = "weights";
// Of digests alone: gradients, and the weights in the compute type, where they are copies.
inline constexpr std::string_view gradients_array = "gradients", copies_array = "copies";

}  // namespace trireme
