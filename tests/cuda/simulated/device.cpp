// The devices that are simulated: the texts and numbers that the program asks for. A process uses
// one of them; TRIREME_SIMULATED_DEVICES says how many it sees.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "tests/cuda/simulated/streams.hpp"

static int devices() {
  const char* given = std::getenv("TRIREME_SIMULATED_DEVICES");
  return given ? std::atoi(given) : 1;
}
static bool there(int device) {
  return device >= 0 && device < devices();
}

cudaError_t cudaGetDeviceCount(int* n) {
  *n = devices();
  return cudaSuccess;
}
// Each thread's own, as on real devices: a thread that chose none has number 0.
static thread_local int current = 0;
cudaError_t cudaSetDevice(int device) {
  if (!there(device)) return cudaErrorInvalidDevice;
  current = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (!there(device)) return cudaErrorInvalidDevice;
  *p = {};
  p->uuid.bytes[15] = static_cast<char>(device);
  std::strcpy(p->name, "a simulated device");
  std::size_t left = 0;
  return cudaMemGetInfo(&left, &p->totalGlobalMem);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int device) {
  if (!there(device)) return cudaErrorInvalidDevice;
  if (what == cudaDevAttrComputeCapabilityMajor)
    *value = 9;
  else if (what == cudaDevAttrComputeCapabilityMinor)
    *value = 0;
  else
    return cudaErrorNotSupported;
  return cudaSuccess;
}
// TRIREME_SIMULATED_DRIVER: an older one.
cudaError_t cudaDriverGetVersion(int* version) {
  const char* given = std::getenv("TRIREME_SIMULATED_DRIVER");
  *version = given ? std::atoi(given) : CUDART_VERSION;
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
