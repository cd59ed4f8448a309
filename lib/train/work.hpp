#pragma once
// What a model is to compute, whatever computes it.
#include "lib/model/spec.hpp"

namespace trireme {

// FLOPs of a token, forward and backward, if no rule freezes anything: six a weight that a product
// of blocks or head multiplies with (Kaplan et al. 2020), four where adapters stand beside it, and
// attention's, causal. Norms,
// biases and tables that rows are looked up in count for nothing.
double flops_of_token(const ModelSpec&);

}  // namespace trireme
