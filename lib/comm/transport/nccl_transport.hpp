#pragma once
// Transport with NCCL, which needs one GPU per rank. NCCL chooses the order of sums. The order is
// the same for the same ranks on the same machines.
#include <string>

#include "lib/comm/transport/device_transport.hpp"

namespace trireme::transport {

// Returns a text like "NCCL 2.28.9". Returns an empty string if the build has no NCCL or
// libtrireme_cuda.so cannot be opened. The function needs no device.
std::string nccl_library();

// Returns a function that opens transports on this device. That function makes `device` the current
// device of the calling thread, because NCCL uses the current device. It throws Error if the build
// has no NCCL, or if NCCL cannot keep the order of several communicators (nccl/launch_order.hpp).
OpenDevice nccl_on(int device);

// Functions that libtrireme_cuda.so exports through its symbol `trireme_nccl`.
struct NcclLibrary {
  std::string (*name)();
  OpenDevice (*on)(int device);
};

}  // namespace trireme::transport
