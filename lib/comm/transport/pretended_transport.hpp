#pragma once
// Transports of a rank whose job does not run. Every request completes immediately, and no memory
// changes. The only exception is all-gather, which returns this rank's data for every rank.
#include <memory>

#include "lib/comm/transport/device_transport.hpp"

namespace trireme::transport {

// Returns a host transport that cannot be split. Throws Error if the rank is out of range.
std::unique_ptr<HostTransport> pretended_host(int rank, int size);
// Returns a pretended device transport. This function is an OpenDevice.
std::unique_ptr<DeviceTransport> pretended_device(const Bootstrap&);

}  // namespace trireme::transport
