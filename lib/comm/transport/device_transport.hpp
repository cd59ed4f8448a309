#pragma once
// Between the memories of GPUs, in the order of a stream: an operation runs after earlier work on
// the stream, and later work sees its result. `test` is true once that is assured; the transfer may
// still be running. A device transport uses one stream all its life.
#include <functional>
#include <memory>
#include <string>

#include "lib/comm/transport/host_transport.hpp"

namespace trireme::transport {

class DeviceTransport : public Transport {
 public:
  // Sends and receives between the two calls run concurrently. `stream` is the Backend::native of
  // the posting queue.
  virtual void begin_group(void* stream) = 0;
  virtual void end_group() = 0;

  // all = the ranks' `mine` one after the other; `mine` may be its own place in `all`.
  virtual Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             void* stream) = 0;
  // mine = sum over ranks of slice `rank()` of their `all`, in the transport's order; `mine` may be
  // that slice.
  virtual Request reduce_scatter(std::span<const float> all, std::span<float> mine,
                                 void* stream) = 0;
  // Throws Error when a posted operation has failed. Cheap.
  virtual void check() = 0;
};

// What a device transport is set up with.
struct Bootstrap {
  HostTransport& host;  // between the same ranks; outlives the device transport
  // Returns when `host` has completed the request; other operations progress meanwhile. Throws
  // Error naming `what` when it failed or took too long.
  std::function<void(Transport::Request, const std::string& what)> wait;
};
// Collective over the ranks.
using OpenDevice = std::function<std::unique_ptr<DeviceTransport>(const Bootstrap&)>;

}  // namespace trireme::transport
