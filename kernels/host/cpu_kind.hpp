#pragma once
// Description of everything outside the program that the host backend's bits depend on: the kind of
// CPU, the version of oneDNN and the instruction set in use.
#include <string>

namespace trireme::host {

// Returns one line, e.g. "AuthenticAMD family 25 model 1 (AMD EPYC), oneDNN 2.6.3 for avx2, kernels
// for native, 8 numbers at once". Machines with equal lines compute results with equal bits.
std::string cpu_kind();

}  // namespace trireme::host
