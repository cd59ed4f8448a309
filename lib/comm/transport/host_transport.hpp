#pragma once
// Between host memories; with the small collectives by which ranks agree.
#include <memory>
#include <optional>

#include "lib/comm/transport/transport.hpp"

namespace trireme::transport {

enum class Reduction : std::uint8_t { sum, max };

class HostTransport : public Transport {
 public:
  virtual Request broadcast(int root, std::span<std::byte>) = 0;
  // In place.
  virtual Request all_reduce(Reduction, std::span<double>) = 0;
  // `bytes[r]` from rank r, concatenated in `all`.
  virtual Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             std::span<const int> bytes) = 0;

  // Who sent a message with this tag that has arrived and that no receive waits for; none: nobody.
  virtual std::optional<int> arrived(int tag) = 0;

  // Collective and blocking: transports between the ranks of one color (>= 0), ordered by key;
  // between these ranks again; and between the ranks of one node.
  virtual std::unique_ptr<HostTransport> split(int color, int key) = 0;
  virtual std::unique_ptr<HostTransport> duplicate() = 0;
  virtual std::unique_ptr<HostTransport> node() = 0;
};

}  // namespace trireme::transport
