#include "lib/comm/transport/nccl_transport.hpp"

#include "kernels/cuda/library.hpp"
#include "lib/base/error.hpp"

namespace trireme::transport {

static const NcclLibrary* library() {
  const auto entry =
      reinterpret_cast<const NcclLibrary* (*)()>(cuda::library_symbol("trireme_nccl"));
  return entry ? entry() : nullptr;
}

std::string nccl_library() {
  const auto* const nccl = library();
  return nccl ? nccl->name() : "";
}

OpenDevice nccl_on(int device) {
  if (const auto* const nccl = library()) return nccl->on(device);
  return [](const Bootstrap&) -> std::unique_ptr<DeviceTransport> {
    fail("this build has no NCCL: set run.share_gpu = true, or build with NCCL");
  };
}

}  // namespace trireme::transport
