#include "lib/base/error.hpp"
#include "lib/comm/transport/nccl_transport.hpp"

namespace trireme::transport {

std::string nccl_library() {
  return {};
}

void require_launch_order(int, int) {}

OpenDevice nccl_on(int) {
  return [](const Bootstrap&) -> std::unique_ptr<DeviceTransport> {
    fail("this build has no NCCL: set run.share_gpu = true, or build with NCCL");
  };
}

}  // namespace trireme::transport
