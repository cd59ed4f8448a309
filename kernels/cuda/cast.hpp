#pragma once
// Element by element work on device memory: n elements from dst[0] and src[0], asynchronous on
// `stream` (a cudaStream_t). Throw Error when the launch fails.
#include <cstdint>

#include "lib/base/dtype.hpp"

namespace trireme::cuda {

// Rounds to nearest, ties to even.
void cast(void* stream, bf16* dst, const float* src, std::int64_t n);
void cast(void* stream, float* dst, const bf16* src, std::int64_t n);

void fill(void* stream, float* dst, float value, std::int64_t n);
void fill(void* stream, bf16* dst, float value, std::int64_t n);

}  // namespace trireme::cuda
