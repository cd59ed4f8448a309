#pragma once
// Implementation of functions in kernels/cuda/device.hpp with the CUDA runtime. They throw Error
// with the runtime's description.
#include <cstddef>
#include <string>

namespace trireme::cuda {

int devices(std::string* why);
std::string device_identity(int device);
int architecture(int device);
std::size_t device_bytes(int device);
std::string libraries();

}  // namespace trireme::cuda
