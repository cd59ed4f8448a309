#pragma once
// A GPU's special function units, without the code that CUDA's own functions have around them for
// numbers too small to be normal: these are 0.
#include <cuda_runtime.h>

namespace trireme::cuda {

// 2^x within 2^-22 of it, 1 for 0; 1/x within 1 ulp (PTX ISA: ex2, rcp).
__device__ inline float special_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float special_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace trireme::cuda
