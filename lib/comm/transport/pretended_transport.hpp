#pragma once
// Rank `rank` of `size` ranks that do not exist: everything is complete at once and changes
// nothing, but for texts, which the others repeat.
#include <memory>

#include "lib/comm/transport/device_transport.hpp"

namespace trireme::transport {

// Throws Error where there is no such rank. It cannot be split.
std::unique_ptr<HostTransport> pretended_host(int rank, int size);
// An OpenDevice.
std::unique_ptr<DeviceTransport> pretended_device(const Bootstrap&);

}  // namespace trireme::transport
