#pragma once
// A rank of a job that does not run: every request is complete at once and no memory changes,
// except that an all-gather of texts returns this rank's text for every rank.
#include <memory>

#include "lib/comm/transport/device_transport.hpp"

namespace trireme::transport {

// Throws Error where there is no such rank. It cannot be split.
std::unique_ptr<HostTransport> pretended_host(int rank, int size);
// An OpenDevice.
std::unique_ptr<DeviceTransport> pretended_device(const Bootstrap&);

}  // namespace trireme::transport
