#pragma once
// Stands in for a wire between GPUs where there are none: host memory over MPI, with NCCL's rules.
// Messages have no tags and match in the order of posting; nothing of a group moves before it ends,
// nor before the group ahead of it is done; a send is done when it was received, however short it
// is; a collective is a group. Sums begin with the own part,
// then rank+1, ... Blocks nothing itself: `test` lets it move.
#include "lib/comm/device_wire.hpp"

namespace trireme::test {

// An OpenDeviceWire.
std::unique_ptr<DeviceWire> host_wire(Transport&);

}  // namespace trireme::test
