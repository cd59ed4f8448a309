#pragma once
// Kernel launch syntax that only the CUDA compiler understands. Everything else in the .cu files is
// standard C++, so tests/cuda/simulated can compile it with another version of this file.
#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "kernels/cuda/check.hpp"

namespace trireme::cuda {

inline cudaStream_t native(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

// Bytes of shared memory that a thread block may use without opting in to more.
inline constexpr std::size_t usual_shared_bytes = std::size_t{48} << 10;

// Puts kernel(args...) on a stream. Throws Error, with `name`, if the launch fails.
template <class... Parameters, class... Args>
void start(const char* name, void (*kernel)(Parameters...), dim3 grid, int threads,
           std::size_t shared_bytes, void* stream, Args&&... args) {
  if (shared_bytes > usual_shared_bytes)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          name);
  kernel<<<grid, static_cast<unsigned>(threads), shared_bytes, native(stream)>>>(
      std::forward<Args>(args)...);
  check(cudaGetLastError(), name);
}

// Returns the thread block's dynamic shared memory, aligned to 16 bytes. The arguments of the
// launch determine its size.
__device__ inline float* block_memory() {
  alignas(16) extern __shared__ float memory[];
  return memory;
}

}  // namespace trireme::cuda
