#include "kernels/cuda/device.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "kernels/cuda/library.hpp"
#include "lib/base/error.hpp"

namespace trireme {
namespace {

// Makes the driver create a hardware queue for each stream. Streams that share a hardware queue
// wait for each other, and a stream that waits for another rank must not block the other streams.
// The driver reads the variable when it starts. Some clusters set it to 1.
void give_streams_queues_of_their_own() {
  constexpr const char* name = "CUDA_DEVICE_MAX_CONNECTIONS";
  constexpr int most = 32;
  const char* given = std::getenv(name);
  if (!given || std::atoi(given) < most) setenv(name, std::to_string(most).c_str(), 1);
}

// Returns true if the driver finds a device. The function uses only the driver, because loading
// CUDA's libraries takes 250 MB and a tenth of a second.
bool driver_has_device(std::string* why) {
  give_streams_queues_of_their_own();
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) {
    *why = fmt::format("no NVIDIA driver: {}", dlerror());
    return false;
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  const auto text = reinterpret_cast<int (*)(int, const char**)>(dlsym(driver, "cuGetErrorString"));
  if (!init || !count || !text) {
    *why = "libcuda.so.1 is not NVIDIA's driver";
    return false;
  }
  int n = 0;
  int code = init(0);
  if (code == 0) code = count(&n);
  if (code == 0 && n > 0) return true;
  const char* words = nullptr;
  if (code != 0) text(code, &words);
  *why = code == 0 ? std::string("the NVIDIA driver sees no device")
                   : fmt::format("the NVIDIA driver says: {} (error {})", words ? words : "no text",
                                 code);
  return false;
}

const cuda::Library& loaded() {
  std::string why;
  const auto* const library = cuda::library(&why);
  require(library, "{}", why);
  return *library;
}

}  // namespace

bool built_with_cuda() {
  return TRIREME_WITH_CUDA;
}

bool cuda_driver_answers(std::string* why) {
  static std::string without;
  static const bool here = driver_has_device(&without);
  if (!here) *why = without;
  return here;
}

int cuda_devices(std::string* why) {
  if (!built_with_cuda()) {
    *why = "this trireme was built without CUDA (cmake -DTRIREME_CUDA=ON says what was missing)";
    return 0;
  }
  if (!cuda_driver_answers(why)) return 0;
  const auto* const library = cuda::library(why);
  return library ? library->devices(why) : 0;
}

std::string cuda_device_identity(int device) {
  return loaded().device_identity(device);
}

int cuda_architecture(int device) {
  return loaded().architecture(device);
}

std::size_t cuda_device_bytes(int device) {
  return loaded().device_bytes(device);
}

std::string cuda_libraries() {
  if (!built_with_cuda()) return {};
  return loaded().libraries();
}

std::unique_ptr<Backend> open_cuda(const CudaChoice& c) {
  std::string why;
  const int n = cuda_devices(&why);
  require(n > 0, "run.backend = \"cuda\": no CUDA device: {}", why);
  require(
      c.device < n,
      "run.backend = \"cuda\": device {} was requested, but the number of visible devices is {}",
      c.device, n);
  return loaded().open(c);
}

void start_cuda_timing(Backend& b) {
  loaded().start_timing(b);
}

std::vector<OperationTime> stop_cuda_timing(Backend& b) {
  return loaded().stop_timing(b);
}

std::int64_t cuda_fused_products(Backend& b) {
  return loaded().fused_products(b);
}

}  // namespace trireme
