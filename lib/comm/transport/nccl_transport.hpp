#pragma once
// NCCL: one GPU for each rank. It chooses the order of sums, the same for the same ranks on the
// same machines.
#include <string>

#include "lib/comm/transport/device_transport.hpp"

namespace trireme::transport {

// e.g. "NCCL 2.28.9"; empty in a build without NCCL and where libtrireme_cuda.so cannot be opened.
// Needs no device.
std::string nccl_library();

// Transports of this device, which opening one makes the calling thread's current one: NCCL takes
// that, and number 0 is everybody's until somebody chooses. Opening throws Error in a build without
// NCCL, and where two communicators could not be kept in order (nccl/launch_order.hpp).
OpenDevice nccl_on(int device);

// What libtrireme_cuda.so offers at its symbol `trireme_nccl`.
struct NcclLibrary {
  std::string (*name)();
  OpenDevice (*on)(int device);
};

}  // namespace trireme::transport
