#include "kernels/cuda/backend/device.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include "kernels/cuda/attention/sdpa.hpp"
#include "kernels/cuda/check.hpp"
#include "lib/base/error.hpp"

namespace trireme::cuda {

void check(int code, const char* call) {
  const auto e = static_cast<cudaError_t>(code);
  require(e == cudaSuccess, "CUDA: {} failed: {} ({})", call, cudaGetErrorString(e),
          cudaGetErrorName(e));
}

void check_count(std::int64_t count, std::int64_t most, const char* what) {
  require(count <= most,
          "{} {} are more than the {} that a GPU supports: use a smaller train.microbatch", count,
          what, most);
}

int devices(std::string* why) {
  int n = 0;
  const cudaError_t e = cudaGetDeviceCount(&n);
  if (e == cudaSuccess && n > 0) return n;
  cudaGetLastError();  // clears the error, so that no later launch reports it
  *why = e == cudaSuccess ? std::string("the CUDA runtime found no device")
                          : fmt::format("{} ({})", cudaGetErrorString(e), cudaGetErrorName(e));
  return 0;
}

std::string device_identity(int device) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  std::string id = p.name;
  id += ' ';
  for (const char byte : p.uuid.bytes)
    id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return id;
}

int architecture(int device) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

std::size_t device_bytes(int device) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  return p.totalGlobalMem;
}

std::string libraries() {
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const auto blas = cublasLtGetVersion();
  const auto dnn = cudnnGetVersion();
  const auto frontend = sdpa_library();
  return fmt::format("CUDA runtime {}.{}, cuBLASLt {}.{}.{}, cuDNN {}.{}.{}{}{}", runtime / 1000,
                     runtime % 1000 / 10, blas / 10000, blas / 100 % 100, blas % 100, dnn / 10000,
                     dnn / 100 % 100, dnn % 100, frontend.empty() ? "" : ", ", frontend);
}

}  // namespace trireme::cuda
