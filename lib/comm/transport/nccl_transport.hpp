#pragma once
// NCCL: one GPU for each rank. It chooses the order of sums, the same for the same ranks on the
// same machines.
#include <string>

#include "lib/comm/transport/device_transport.hpp"

namespace trireme::transport {

// e.g. "NCCL 2.28.9"; empty in a build without NCCL. Needs no device.
std::string nccl_library();

// Versions as the libraries number them: 12030 and 22600. Throws Error where NCCL cannot launch the
// work of several communicators in the order of the calls: two of them may then wait for each
// other's room on the device for ever ("Using multiple NCCL communicators concurrently" in its
// guide).
void require_launch_order(int driver, int nccl);

// Transports of this device, which opening one makes the calling thread's current one: NCCL takes
// that, and number 0 is everybody's until somebody chooses. Opening throws Error in a build without
// NCCL, and as require_launch_order says.
OpenDevice nccl_on(int device);

}  // namespace trireme::transport
