#pragma once
// What op_test.cpp puts every op through. Each op's file says its own cases, with how far f32 may
// be off: errors of kernels as in tests/kernels/contract_*_test.cpp, carried through the op.
#include <vector>

#include "tests/support/op_check.hpp"

namespace trireme {

std::vector<OpCase> linear_cases();
std::vector<OpCase> mlp_cases();
std::vector<OpCase> norm_cases();
std::vector<OpCase> residual_norm_cases();
std::vector<OpCase> embedding_cases();
std::vector<OpCase> pointwise_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> qk_norm_cases();
std::vector<OpCase> head_cases();

}  // namespace trireme
