// The one device that is simulated: the texts and numbers that the program asks for.
#include <cuda_runtime_api.h>

#include <cstring>

#include "tests/cuda/simulated/streams.hpp"

cudaError_t cudaGetDeviceCount(int* n) {
  *n = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  *p = {};
  std::strcpy(p->name, "a simulated device");
  std::size_t left = 0;
  return cudaMemGetInfo(&left, &p->totalGlobalMem);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  if (what == cudaDevAttrComputeCapabilityMajor)
    *value = 9;
  else if (what == cudaDevAttrComputeCapabilityMinor)
    *value = 0;
  else
    return cudaErrorNotSupported;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return trireme::simulated::fault() ? cudaErrorLaunchFailure : cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaErrorLaunchFailure ? "cudaErrorLaunchFailure" : "an error of the simulation";
}
const char* cudaGetErrorString(cudaError_t code) {
  const char* const fault = trireme::simulated::fault();
  return code == cudaErrorLaunchFailure && fault ? fault
         : code == cudaSuccess                   ? "no error"
                                                 : "see driver_types.h for the code";
}
