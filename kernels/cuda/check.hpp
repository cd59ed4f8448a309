#pragma once
// Throws Error with the call's text and the runtime's own words unless `code` (a cudaError_t) is 0.

namespace trireme::cuda {

void check(int code, const char* call);

}  // namespace trireme::cuda
