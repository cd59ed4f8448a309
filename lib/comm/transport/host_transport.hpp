#pragma once
// Interface of transports between host memories. In addition to messages, it has small collectives
// with which ranks make common decisions.
#include <memory>
#include <optional>

#include "lib/comm/transport/transport.hpp"

namespace trireme::transport {

// How an all-reduce combines the numbers of all ranks.
enum class Reduction : std::uint8_t { sum, max };

// Interface that sends and receives bytes between host memories.
class HostTransport : public Transport {
 public:
  virtual Request broadcast(int root, std::span<std::byte>) = 0;
  // Computes the sum or maximum over ranks, in place.
  virtual Request all_reduce(Reduction, std::span<double>) = 0;
  // Concatenates `mine` of all ranks, in rank order, into `all`. Rank r contributes bytes[r] bytes.
  virtual Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             std::span<const int> bytes) = 0;

  // Returns the sender of an arrived message with this tag that no receive has been posted for.
  // Returns nullopt if there is no such message.
  virtual std::optional<int> arrived(int tag) = 0;

  // split(), duplicate() and node() are collective and blocking. split() returns a transport
  // between the ranks with the same color (>= 0), ordered by key. duplicate() returns another
  // transport between the same ranks. node() returns a transport between the ranks on this node.
  virtual std::unique_ptr<HostTransport> split(int color, int key) = 0;
  virtual std::unique_ptr<HostTransport> duplicate() = 0;
  virtual std::unique_ptr<HostTransport> node() = 0;
};

}  // namespace trireme::transport
