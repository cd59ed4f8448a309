#pragma once
// Interface of transports between GPU memories. A stream orders the operations: an operation runs
// after earlier work on the stream, and later work sees its result. test() returns true as soon as
// this order is guaranteed, even if the transfer is still running. A device transport uses one
// stream throughout its life.
#include <functional>
#include <memory>
#include <string>

#include "lib/comm/transport/host_transport.hpp"

namespace trireme::transport {

// Interface that sends and receives bytes between GPU memories.
class DeviceTransport : public Transport {
 public:
  // begin_group() and end_group() enclose sends and receives that run concurrently. `stream` is the
  // Backend::native handle of the queue on which they are posted.
  virtual void begin_group(void* stream) = 0;
  virtual void end_group() = 0;

  // Concatenates `mine` of all ranks, in rank order, into `all`. `mine` may be this rank's part of
  // `all`.
  virtual Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             void* stream) = 0;
  // Sums slice rank() of `all` over all ranks and writes the sum to `mine`. The transport chooses
  // the order of the sum. `mine` may be this rank's slice of `all`.
  virtual Request reduce_scatter(std::span<const float> all, std::span<float> mine,
                                 void* stream) = 0;
  // Throws Error if a posted operation has failed. The check is cheap.
  virtual void check() = 0;
};

// What a device transport needs to find the other ranks.
struct Bootstrap {
  HostTransport& host;  // connects the same ranks; must outlive the device transport
  // Blocks until `host` has completed the request. Other operations progress meanwhile. Throws
  // Error, naming `what`, if the request failed or took too long.
  std::function<void(Transport::Request, const std::string& what)> wait;
};
// Function that opens a device transport. Collective over the ranks.
using OpenDevice = std::function<std::unique_ptr<DeviceTransport>(const Bootstrap&)>;

}  // namespace trireme::transport
