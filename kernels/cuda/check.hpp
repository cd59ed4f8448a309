#pragma once
#include <cstdint>

namespace trireme::cuda {

// Throws Error, with `call` and the CUDA runtime's description, if `code` (a cudaError_t) is not 0.
void check(int code, const char* call);

// Throws Error if `count` exceeds `most`, the limit of a kernel launch or library. `what` says in
// the message what is counted.
void check_count(std::int64_t count, std::int64_t most, const char* what);

}  // namespace trireme::cuda
