#include "lib/base/error.hpp"
#include "lib/comm/nccl.hpp"

namespace trireme {

std::string nccl_library() {
  return {};
}

std::unique_ptr<DeviceWire> nccl_wire(Transport&) {
  fail("this build has no NCCL: set run.share_gpu = true, or build with NCCL");
}

}  // namespace trireme
