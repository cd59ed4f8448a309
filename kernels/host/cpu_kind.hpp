#pragma once
// What the bits of this backend depend on beside the program: kind of CPU, oneDNN, instructions.
#include <string>

namespace trireme::host {

// One line, e.g. "AuthenticAMD family 25 model 1 (AMD EPYC), oneDNN 2.6.3 for avx2, kernels for
// native, 8 numbers at once". Where it is equal, products and kernels round alike.
std::string cpu_kind();

}  // namespace trireme::host
