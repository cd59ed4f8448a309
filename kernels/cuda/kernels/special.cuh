#pragma once
// Wrappers of instructions for a GPU's special function units. Subnormal numbers are flushed to 0.
// CUDA's own functions add instructions to support subnormal numbers.
#include <cuda_runtime.h>

namespace trireme::cuda {

// Returns 2^x with a relative error of 2^-22, and exactly 1 for 0 (PTX ISA: ex2).
__device__ inline float special_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Returns 1/x within 1 ulp (PTX ISA: rcp).
__device__ inline float special_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace trireme::cuda
