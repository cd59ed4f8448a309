#pragma once
// What the CUDA runtime says about this machine. In a build without the toolkit: no device, and
// why.
#include <string>

namespace trireme {

// Number of usable devices. When there is none, `why` gets the reason in the runtime's own words.
// Never throws for want of a device or a driver.
int cuda_devices(std::string* why);

// Versions of the libraries in use, e.g. "CUDA runtime 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0"; empty
// in a build without the toolkit.
std::string cuda_libraries();

}  // namespace trireme
