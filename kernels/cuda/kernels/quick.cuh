#pragma once
// e^x and quotients for results that are rounded to bf16: a tenth of the instructions of the exact
// ones, which would hold up the memory.
#include <type_traits>

#include "kernels/cuda/kernels/special.cuh"
#include "kernels/math/exact.hpp"
#include "lib/base/dtype.hpp"

namespace trireme::cuda {

// e^x is off by 2^-22 and, as x log2(e) is rounded, by |x| 2^-24: less than 2^-17 where it is a
// normal number. A quotient is off by 2^-22, and 0 for b above 2^126.
struct Quick {
  __device__ static float exp(float x) { return special_exp2(1.442695041F * x); }
  __device__ static float exp_normal(float x) { return exp(x); }
  __device__ static float quotient(float a, float b) { return a * special_reciprocal(b); }
};

template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, bf16>, Quick, math::Exact>;

}  // namespace trireme::cuda
