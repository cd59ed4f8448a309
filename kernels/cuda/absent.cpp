// The CUDA folder of a build without the toolkit: no device, and every call says why.
#include "kernels/cuda/cast.hpp"
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

namespace cuda {
namespace {

[[noreturn]] void absent() {
  std::string why;
  cuda_devices(&why);
  fail("no CUDA device: {}", why);
}

}  // namespace

void cast(void*, bf16*, const float*, std::int64_t) {
  absent();
}
void cast(void*, float*, const bf16*, std::int64_t) {
  absent();
}
void fill(void*, float*, float, std::int64_t) {
  absent();
}
void fill(void*, bf16*, float, std::int64_t) {
  absent();
}

}  // namespace cuda
}  // namespace trireme
