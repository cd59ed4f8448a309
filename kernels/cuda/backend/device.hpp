#pragma once
// CUDA runtime implementation of functions that kernels/cuda/device.hpp declares. The functions
// throw Error with the runtime's error text.
#include <cstddef>
#include <string>

namespace trireme::cuda {

int devices(std::string* why);
std::string device_identity(int device);
int architecture(int device);
std::size_t device_bytes(int device);
std::string libraries();

}  // namespace trireme::cuda
