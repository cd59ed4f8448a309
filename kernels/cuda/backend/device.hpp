#pragma once
// What kernels/cuda/device.hpp says of devices and libraries, by the CUDA runtime. Throw Error in
// its words.
#include <cstddef>
#include <string>

namespace trireme::cuda {

int devices(std::string* why);
std::string device_identity(int device);
int architecture(int device);
std::size_t device_bytes(int device);
std::string libraries();

}  // namespace trireme::cuda
