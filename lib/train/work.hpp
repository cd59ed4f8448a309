#pragma once
// What a model is to compute, whatever computes it.
#include "lib/model/spec.hpp"

namespace trireme {

// FLOPs of a token, forward and backward, if all of the model is trained: six a weight that a
// product of blocks or head multiplies with (Kaplan et al. 2020), and attention's, causal. Norms,
// biases and tables that rows are looked up in count for nothing.
double flops_of_token(const ModelSpec&);

}  // namespace trireme
