#pragma once
// Between the memories of GPUs, in the order of a stream: what is posted comes after what was put
// on the stream before, and what is put there later sees its result as soon as `test` says true,
// which need not mean that anything has moved yet. A device transport has one stream for its life.
#include <functional>
#include <memory>
#include <string>

#include "lib/comm/transport/host_transport.hpp"

namespace trireme::transport {

class DeviceTransport : public Transport {
 public:
  // What is sent and received between them moves together, in no order. `stream` is a
  // Backend::native of the queue that posts.
  virtual void begin_group(void* stream) = 0;
  virtual void end_group() = 0;

  // In place: part `rank()` of `all` goes to everybody.
  virtual Request all_gather(std::span<std::byte> all, void* stream) = 0;
  // mine = sum over ranks of part `rank()` of their `all`, in an order of its own; `mine` may be
  // that part.
  virtual Request reduce_scatter(std::span<const float> all, std::span<float> mine,
                                 void* stream) = 0;
  // Throws Error when something that was posted has failed since. Cheap.
  virtual void check() = 0;
};

// What ranks have before they have a device transport.
struct Bootstrap {
  HostTransport& host;  // between the same ranks; outlives the device transport
  // Returns when `host` has completed the request; other operations move meanwhile. Throws Error
  // that says `what` when it failed or took too long.
  std::function<void(Transport::Request, const std::string& what)> wait;
};
// Collective over the ranks.
using OpenDevice = std::function<std::unique_ptr<DeviceTransport>(const Bootstrap&)>;

}  // namespace trireme::transport
