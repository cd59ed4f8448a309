#pragma once
// kernels/cuda/kernels/start.cuh of a simulated device.
#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>

#include "kernels/cuda/check.hpp"
#include "tests/cuda/simulated/streams.hpp"

namespace trireme::cuda {

inline cudaStream_t native(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

template <class... Parameters, class... Args>
void start(const char* name, void (*kernel)(Parameters...), dim3 grid, int threads,
           std::size_t shared_bytes, void* stream, Args&&... args) {
  std::tuple<Parameters...> copies(std::forward<Args>(args)...);
  check(simulated::put(native(stream), name,
                       [=] {
                         simulated::run_grid(grid, dim3(static_cast<unsigned>(threads)),
                                             shared_bytes, [&] { std::apply(kernel, copies); });
                       }),
        name);
}

inline float* block_memory() {
  return simulated::here().shared;
}

}  // namespace trireme::cuda
