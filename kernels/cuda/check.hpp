#pragma once
#include <cstdint>

namespace trireme::cuda {

// Throws Error with the call's text and the runtime's own words unless `code` (a cudaError_t) is 0.
void check(int code, const char* call);

// Throws Error where there are more of something than a launch or a library takes.
void check_count(std::int64_t count, std::int64_t most, const char* what);

}  // namespace trireme::cuda
