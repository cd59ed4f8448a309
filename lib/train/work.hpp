#pragma once
// Counts the floating-point operations of a model, independently of the machine that computes it.
#include "lib/model/spec.hpp"

namespace trireme {

// Returns the FLOPs per token of forward and backward pass if no freeze rule applies. Each weight
// in matrix products of blocks and head counts six FLOPs (Kaplan et al. 2020), or four if it is a
// base weight with adapters. Causal attention is added. Norms, biases and embedding lookups count
// as zero.
double flops_of_token(const ModelSpec&, std::int64_t context);

}  // namespace trireme
