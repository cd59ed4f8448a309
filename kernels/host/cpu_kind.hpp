#pragma once
// Description of everything except the program that the bits of the host backend depend on: the
// kind of CPU, oneDNN's version and the instructions in use.
#include <string>

namespace trireme::host {

// Returns one line, e.g. "AuthenticAMD family 25 model 1 (AMD EPYC), oneDNN 2.6.3 for avx2, kernels
// for native, 8 numbers at once". Machines with equal lines round products and kernels alike.
std::string cpu_kind();

}  // namespace trireme::host
