#pragma once
// NCCL: one GPU for each rank. It chooses the order of sums, the same for the same ranks on the
// same machines.
#include <string>

#include "lib/comm/transport/device_transport.hpp"

namespace trireme::transport {

// e.g. "NCCL 2.28.9"; empty in a build without NCCL. Needs no device.
std::string nccl_library();

// An OpenDevice, for the calling thread's current device. Throws Error in a build without NCCL.
std::unique_ptr<DeviceTransport> open_nccl(const Bootstrap&);

}  // namespace trireme::transport
