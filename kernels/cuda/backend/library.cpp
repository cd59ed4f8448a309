// The entry point of libtrireme_cuda.so.
#include "kernels/cuda/library.hpp"

#include <fmt/format.h>

#include "kernels/cuda/backend/cuda.hpp"
#include "kernels/cuda/backend/device.hpp"
#include "lib/base/error.hpp"

#include TRIREME_COMMIT_FILE

namespace trireme::cuda {
namespace {

Cuda& opened(Backend& b) {
  auto* const cuda = dynamic_cast<Cuda*>(&b);
  require(cuda, "the {} backend is not on a CUDA device", b.name());
  return *cuda;
}

// Returns the build of this library. lib/base/version.hpp would return that of the program.
const std::string& build() {
  static const auto text =
      fmt::format("{}, commit {}, {}", TRIREME_VERSION, commit_text, TRIREME_COMPILER);
  return text;
}

}  // namespace
}  // namespace trireme::cuda

extern "C" const trireme::cuda::Library* trireme_cuda() {
  using namespace trireme;
  using namespace trireme::cuda;
  static const Library library{
      .build = build().c_str(),
      .devices = devices,
      .device_identity = device_identity,
      .architecture = architecture,
      .device_bytes = device_bytes,
      .libraries = libraries,
      .open = [](const CudaChoice& c) -> std::unique_ptr<Backend> {
        return std::make_unique<Cuda>(c);
      },
      .start_timing = [](Backend& b) { opened(b).timing().start(); },
      .stop_timing = [](Backend& b) { return opened(b).timing().stop(); },
      .fused_products = [](Backend& b) { return opened(b).products().fused(); }};
  return &library;
}
