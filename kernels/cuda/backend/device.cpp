#include "kernels/cuda/device.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "kernels/cuda/check.hpp"
#include "lib/base/error.hpp"

namespace trireme {

namespace cuda {

void check(int code, const char* call) {
  const auto e = static_cast<cudaError_t>(code);
  require(e == cudaSuccess, "CUDA: {} failed: {} ({})", call, cudaGetErrorString(e),
          cudaGetErrorName(e));
}

void check_count(std::int64_t count, std::int64_t most, const char* what) {
  require(count <= most,
          "{} {} are more than the {} that a GPU takes: use a smaller train.microbatch", count,
          what, most);
}

}  // namespace cuda

// Streams that share a hardware queue wait for each other, and one that waits for another rank must
// not hold up the rest. The driver reads this when it starts; some clusters set it to 1.
static void give_streams_queues_of_their_own() {
  constexpr const char* name = "CUDA_DEVICE_MAX_CONNECTIONS";
  constexpr int most = 32;
  const char* given = std::getenv(name);
  if (!given || std::atoi(given) < most) setenv(name, std::to_string(most).c_str(), 1);
}

int cuda_devices(std::string* why) {
  [[maybe_unused]] static const bool once = (give_streams_queues_of_their_own(), true);
  int n = 0;
  const cudaError_t e = cudaGetDeviceCount(&n);
  if (e == cudaSuccess && n > 0) return n;
  cudaGetLastError();  // a later launch must not report this one
  *why = e == cudaSuccess ? std::string("the CUDA runtime found no device")
                          : fmt::format("{} ({})", cudaGetErrorString(e), cudaGetErrorName(e));
  return 0;
}

std::string cuda_device_identity(int device) {
  cudaDeviceProp p{};
  cuda::check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  std::string id = p.name;
  id += ' ';
  for (const char byte : p.uuid.bytes)
    id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return id;
}

int cuda_architecture(int device) {
  int major = 0, minor = 0;
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
              "cudaDeviceGetAttribute");
  cuda::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
              "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

std::size_t cuda_device_bytes(int device) {
  cudaDeviceProp p{};
  cuda::check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  return p.totalGlobalMem;
}

std::string cuda_libraries() {
  int runtime = 0;
  cuda::check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const auto blas = cublasLtGetVersion();
  const auto dnn = cudnnGetVersion();
  return fmt::format("CUDA runtime {}.{}, cuBLASLt {}.{}.{}, cuDNN {}.{}.{}", runtime / 1000,
                     runtime % 1000 / 10, blas / 10000, blas / 100 % 100, blas % 100, dnn / 10000,
                     dnn / 100 % 100, dnn % 100);
}

}  // namespace trireme
