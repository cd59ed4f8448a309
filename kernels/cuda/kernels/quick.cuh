#pragma once
// Fast e^x and quotients for results that are rounded to bf16. They need a tenth of the
// instructions of exact arithmetic, which would make kernels compute-bound.
#include <type_traits>

#include "kernels/cuda/kernels/special.cuh"
#include "kernels/math/exact.hpp"
#include "lib/base/dtype.hpp"

namespace trireme::cuda {

// Approximate arithmetic. The relative error of e^x is 2^-22 plus |x| 2^-24, because x log2(e) is
// rounded. If e^x is a normal number, this is below 2^-17. The relative error of a quotient is
// 2^-22. If the divisor b is above 2^126, the quotient is 0.
struct Quick {
  __device__ static float exp(float x) { return special_exp2(1.442695041F * x); }
  __device__ static float exp_normal(float x) { return exp(x); }
  __device__ static float quotient(float a, float b) { return a * special_reciprocal(b); }
};

// Arithmetic for results of type T: Quick for bf16, otherwise math::Exact.
template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, bf16>, Quick, math::Exact>;

}  // namespace trireme::cuda
