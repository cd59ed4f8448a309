// The CUDA folder of a build without the toolkit: no device, and whoever asks for one is told why.
#include "kernels/cuda/device.hpp"
#include "lib/base/error.hpp"

namespace trireme {

int cuda_devices(std::string* why) {
  *why = "this trireme was built without CUDA (cmake -DTRIREME_CUDA=ON says what was missing)";
  return 0;
}

std::string cuda_libraries() {
  return {};
}

[[noreturn]] static void absent() {
  std::string why;
  cuda_devices(&why);
  fail("run.backend = \"cuda\": no CUDA device: {}", why);
}

std::string cuda_device_identity(int) {
  absent();
}

int cuda_architecture(int) {
  absent();
}

std::unique_ptr<Backend> open_cuda(const CudaChoice&) {
  absent();
}

void start_cuda_timing(Backend&) {
  absent();
}

std::vector<OperationTime> stop_cuda_timing(Backend&) {
  absent();
}

std::int64_t cuda_fused_products(Backend&) {
  absent();
}

std::size_t cuda_device_bytes(int) {
  absent();
}

}  // namespace trireme
