#pragma once
// Stands in for a transport between GPUs where there are none: host memory over MPI, with NCCL's
// rules. Messages have no tags and match in the order of posting; nothing of a group moves before
// it ends, nor before the group ahead of it is done; a send is done when it was received, however
// short it is; a collective is a group. Sums begin with this rank's part, then rank+1, ... No call
// blocks: messages move when `test` is called.
#include "lib/comm/transport/device_transport.hpp"

namespace trireme::test {

// An OpenDevice.
std::unique_ptr<transport::DeviceTransport> device_on_host(const transport::Bootstrap&);

}  // namespace trireme::test
