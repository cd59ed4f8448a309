#pragma once
// Interface of transports between host memories. It adds the small collectives by which ranks make
// common decisions.
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
  // Sums or maximizes over ranks, in place.
  virtual Request all_reduce(Reduction, std::span<double>) = 0;
  // Concatenates the `mine` of all ranks in `all`. Rank r contributes bytes[r] bytes.
  virtual Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             std::span<const int> bytes) = 0;

  // Returns the sender of a message with this tag that has arrived and that no receive waits for.
  // Returns nothing if there is none.
  virtual std::optional<int> arrived(int tag) = 0;

  // Collective and blocking. split() returns a transport between the ranks of one color (>= 0),
  // ordered by key. duplicate() returns another transport between these ranks. node() returns one
  // between the ranks of this node.
  virtual std::unique_ptr<HostTransport> split(int color, int key) = 0;
  virtual std::unique_ptr<HostTransport> duplicate() = 0;
  virtual std::unique_ptr<HostTransport> node() = 0;
};

}  // namespace trireme::transport
