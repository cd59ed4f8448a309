#pragma once
// What clang's headers lack of CUDA's words, for kernels/cuda/kernels alone.
#include <cuda_runtime.h>

__device__ inline void __stcs(unsigned* p, unsigned x) {
  asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}
__device__ inline void __stcs(uint2* p, uint2 x) {
  asm volatile("st.global.cs.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(x.x), "r"(x.y) : "memory");
}
__device__ inline void __stcs(uint4* p, uint4 x) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}
