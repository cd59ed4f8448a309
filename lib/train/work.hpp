#pragma once
// Counts the floating-point operations of a model, independently of the machine that computes it.
#include "lib/model/spec.hpp"

namespace trireme {

// Returns the FLOPs per token of forward and backward pass if nothing is frozen by rules. Counts
// six FLOPs per weight in matrix products of blocks and head (Kaplan et al. 2020), four for base
// weights with adapters, and causal attention. Norms, biases and embedding lookups count as zero.
double flops_of_token(const ModelSpec&);

}  // namespace trireme
