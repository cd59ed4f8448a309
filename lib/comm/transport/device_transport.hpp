#pragma once
// Interface of transports between GPU memories. Operations are ordered by a stream: an operation
// runs after earlier work on the stream, and later work sees its result. test() returns true when
// that is guaranteed, even if the transfer still runs. A device transport uses one stream
// throughout its life.
#include <functional>
#include <memory>
#include <string>

#include "lib/comm/transport/host_transport.hpp"

namespace trireme::transport {

// Interface that sends and receives bytes between GPU memories.
class DeviceTransport : public Transport {
 public:
  // begin_group() and end_group() enclose sends and receives that run concurrently. `stream` is the
  // Backend::native of the queue on which they are posted.
  virtual void begin_group(void* stream) = 0;
  virtual void end_group() = 0;

  // Concatenates the `mine` of all ranks in `all`. `mine` may be this rank's part of `all`.
  virtual Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             void* stream) = 0;
  // Writes to `mine` the sum over ranks of slice rank() of their `all`. The transport chooses the
  // order of the sum. `mine` may be that slice.
  virtual Request reduce_scatter(std::span<const float> all, std::span<float> mine,
                                 void* stream) = 0;
  // Throws Error if a posted operation has failed. Cheap.
  virtual void check() = 0;
};

// The means by which the ranks of a device transport find each other.
struct Bootstrap {
  HostTransport& host;  // connects the same ranks; must outlive the device transport
  // Blocks until `host` has completed the request, while other operations progress. Throws Error,
  // naming `what`, if the request failed or took too long.
  std::function<void(Transport::Request, const std::string& what)> wait;
};
// A function that opens a device transport. Collective over the ranks.
using OpenDevice = std::function<std::unique_ptr<DeviceTransport>(const Bootstrap&)>;

}  // namespace trireme::transport
